// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/rotary.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include <heddle/backend/host/attention.hpp>
#include "plain_attention.hpp"

namespace rotary_test {

using heddle::host::rotary_positions;

namespace {

template <class T>
std::vector<T> scattered_values(std::size_t n, std::size_t from = 0) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(scattered(from + i));
  return x;
}

template <class T, std::size_t Sequence, std::size_t HeadDim>
struct table {
  std::vector<T> cosine = std::vector<T>(Sequence * HeadDim / 2), sine = cosine;
  explicit table(std::vector<std::int64_t> const& positions, double theta = 10000) {
    rotary_positions::rotary_table<Sequence, HeadDim>(positions.data(), theta, cosine.data(), sine.data());
  }
};

}  // namespace

TEST_CASE_TEMPLATE("each pair turns by position · theta^(-2i/d), values stay", T, float, double) {
  constexpr std::size_t batch = 2, sequence = 3, heads = 2, group = 2, d = 6, slots = group + 2;
  std::vector<std::int64_t> const positions{0, 5, 100000};
  for (double theta : {10000.0, 500000.0}) {
    table<T, sequence, d> const angles(positions, theta);
    std::vector<T> const x = scattered_values<T>(batch * sequence * heads * slots * d);
    std::vector<T> y = x;
    rotary_positions::rotary<batch, sequence, heads, group, d>(y.data(), y.data(), angles.cosine.data(),
                                                               angles.sine.data());
    double const tolerance = sizeof(T) == 4 ? 3e-7 : 1e-11;  // an angle of 1e5 has an error of 1e5 · 1e-16
    double worst = 0;
    for (std::size_t row = 0; row < x.size() / d; ++row) {
      std::size_t const slot = row % slots, s = row / (slots * heads) % sequence;
      for (std::size_t i = 0; i < d / 2; ++i) {
        std::complex<double> const pair(static_cast<double>(x[row * d + i]),
                                        static_cast<double>(x[row * d + i + d / 2]));
        double const angle = static_cast<double>(positions[s]) / std::pow(theta, static_cast<double>(2 * i) / d);
        std::complex<double> const expected = slot <= group ? pair * std::polar(1.0, angle) : pair;
        std::complex<double> const found(static_cast<double>(y[row * d + i]),
                                         static_cast<double>(y[row * d + i + d / 2]));
        if (!(std::abs(found - expected) <= worst)) worst = std::abs(found - expected);
      }
    }
    CHECK(worst < tolerance);
  }
}

TEST_CASE("backward is the transpose: differences and the round trip") {
  constexpr std::size_t d = 4, n = 2 * 3 * d;  // one row of queries, key, value at each of two positions, plus one head
  table<double, 2, d> const angles({3, 17});
  std::vector<double> const x = scattered_values<double>(n), dy = scattered_values<double>(n, 50);
  std::vector<double> dx = dy;
  rotary_positions::rotary_backward<1, 2, 1, 1, d>(dx.data(), dx.data(), angles.cosine.data(), angles.sine.data());
  auto const loss = [&](std::vector<double> values) {
    rotary_positions::rotary<1, 2, 1, 1, d>(values.data(), values.data(), angles.cosine.data(), angles.sine.data());
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += values[i] * dy[i];
    return sum;
  };
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<double> above = x, below = x;
    above[i] += 0.5;
    below[i] -= 0.5;
    CHECK(loss(above) - loss(below) == doctest::Approx(dx[i]).epsilon(1e-12));  // linear: the difference is exact
  }
  std::vector<double> back = x;
  rotary_positions::rotary<1, 2, 1, 1, d>(back.data(), back.data(), angles.cosine.data(), angles.sine.data());
  rotary_positions::rotary_backward<1, 2, 1, 1, d>(back.data(), back.data(), angles.cosine.data(), angles.sine.data());
  CHECK(largest_error(back, x) < 1e-15);
}

// NVIDIA/Megatron-LM PR 1612: 8 tokens over 2 context ranks in the balanced layout.
TEST_CASE_TEMPLATE("SP-2: a rank's rows turn by their global positions", T, float, double) {
  constexpr std::size_t d = 8, row = 3 * d;
  std::vector<std::vector<std::int64_t>> const positions{{0, 1, 6, 7}, {2, 3, 4, 5}};
  std::vector<T> whole = scattered_values<T>(8 * row);
  std::vector<T> const input = whole;
  table<T, 8, d> const all({0, 1, 2, 3, 4, 5, 6, 7});
  rotary_positions::rotary<1, 8, 1, 1, d>(whole.data(), whole.data(), all.cosine.data(), all.sine.data());
  std::vector<T> gathered(8 * row);
  for (auto const& mine : positions) {
    std::vector<T> local(4 * row);
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t e = 0; e < row; ++e) local[s * row + e] = input[static_cast<std::size_t>(mine[s]) * row + e];
    table<T, 4, d> const angles(mine);
    rotary_positions::rotary<1, 4, 1, 1, d>(local.data(), local.data(), angles.cosine.data(), angles.sine.data());
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t e = 0; e < row; ++e) gathered[static_cast<std::size_t>(mine[s]) * row + e] = local[s * row + e];
  }
  CHECK(gathered == whole);
  // The scores know relative positions only: attention is unchanged when every position moves by the same distance.
  std::vector<T> moved = input;
  table<T, 8, d> const later({90, 91, 92, 93, 94, 95, 96, 97});
  rotary_positions::rotary<1, 8, 1, 1, d>(moved.data(), moved.data(), later.cosine.data(), later.sine.data());
  using heddle::host::attentions;
  std::vector<T> y(8 * d), y_moved(8 * d), lse(8), scratch(attentions::attention_scratch<1, 8, 1, 1, d>());
  attentions::attention<1, 8, 1, 1, d>(whole.data(), y.data(), lse.data(), scratch.data());
  attentions::attention<1, 8, 1, 1, d>(moved.data(), y_moved.data(), lse.data(), scratch.data());
  std::vector<double> const expected(y.begin(), y.end());
  CHECK(largest_error(y_moved, expected) < (sizeof(T) == 4 ? 1e-5 : 1e-12));
}

}  // namespace rotary_test
