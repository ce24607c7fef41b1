// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/attention.hpp>

#include <doctest/doctest.h>

#include <limits>

#include "plain_attention.hpp"

namespace attention_test {

using heddle::host::attentions;

namespace {

/// One head with lengths of its own, with everything it reads and writes.
template <class T, std::size_t Queries, std::size_t Keys, std::size_t HeadDim>
struct core {
  guarded<T> q{Queries * HeadDim}, k{Keys * HeadDim}, v{Keys * HeadDim}, y{Queries * HeadDim}, lse{Queries},
      dy{Queries * HeadDim}, dq{Queries * HeadDim}, dk{Keys * HeadDim}, dv{Keys * HeadDim},
      scratch{attentions::attention_core_scratch<Queries, Keys, HeadDim>()},
      backward_scratch{attentions::attention_core_backward_scratch<Queries, Keys, HeadDim>()};

  core() {
    for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<T>(scattered(i));
    for (std::size_t i = 0; i < k.size(); ++i) k[i] = static_cast<T>(scattered(i + 1000));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(scattered(i + 2000));
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<T>(scattered(i + 3000));
  }
  void run() {
    attentions::attention_core<Queries, Keys, HeadDim>(q.data(), HeadDim, k.data(), HeadDim, v.data(), HeadDim,
                                                       y.data(), HeadDim, lse.data(), scratch.data());
    attentions::attention_core_backward<Queries, Keys, HeadDim>(q.data(), HeadDim, k.data(), HeadDim, v.data(), HeadDim,
                                                                y.data(), dy.data(), HeadDim, lse.data(), dq.data(),
                                                                dk.data(), dv.data(), backward_scratch.data());
    for (guarded<T>* b : {&q, &k, &v, &y, &lse, &dy, &dq, &dk, &dv, &scratch, &backward_scratch}) CHECK(b->untouched());
  }
  static std::vector<double> doubles(guarded<T>& from) {
    std::vector<double> out(from.size());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(from[i]);
    return out;
  }
  void check_against_formula(double tolerance) {
    plain_attention const plain(Queries, Keys, HeadDim, doubles(q), doubles(k), doubles(v), doubles(dy));
    CHECK(largest_error(y, plain.y) < tolerance);
    CHECK(largest_error(dq, plain.dq) < tolerance);
    CHECK(largest_error(dk, plain.dk) < tolerance);
    CHECK(largest_error(dv, plain.dv) < tolerance);
    for (std::size_t i = 0; i < Queries; ++i) {
      if (std::isinf(plain.log_sum_exp[i]))
        CHECK(lse[i] == -std::numeric_limits<T>::infinity());
      else
        CHECK(std::fabs(static_cast<double>(lse[i]) - plain.log_sum_exp[i]) < tolerance);
    }
  }
};

template <class T>
constexpr double tolerance_v = sizeof(T) == 4 ? 1e-5 : 1e-12;

}  // namespace

TEST_CASE_TEMPLATE("FA-1: rows that see no key are exactly zero", T, float, double) {
  core<T, 4, 2, 4> c;
  c.run();
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(c.lse[i] == -std::numeric_limits<T>::infinity());
    for (std::size_t e = 0; e < 4; ++e) {
      CHECK(c.y[i * 4 + e] == T(0));
      CHECK(c.dq[i * 4 + e] == T(0));
    }
  }
  c.check_against_formula(tolerance_v<T>);
  core<T, 70, 5, 4> longer;  // whole blocks of queries without a key
  longer.run();
  longer.check_against_formula(tolerance_v<T>);
  CHECK(longer.y[64 * 4 + 3] == T(0));
  CHECK(longer.y[65 * 4 + 3] != T(0));
}

TEST_CASE_TEMPLATE("FA-2: unlike lengths are aligned at the end", T, float, double) {
  core<T, 2, 5, 1> c;
  for (std::size_t i = 0; i < 2; ++i) c.q[i] = T(0);
  for (std::size_t j = 0; j < 5; ++j) c.v[j] = static_cast<T>(j);
  c.run();
  CHECK(static_cast<double>(c.y[0]) == doctest::Approx(1.5).epsilon(1e-6));
  CHECK(static_cast<double>(c.y[1]) == doctest::Approx(2.0).epsilon(1e-6));
  c.check_against_formula(tolerance_v<T>);
  core<T, 33, 140, 4> longer;
  longer.run();
  longer.check_against_formula(tolerance_v<T>);
  core<T, 140, 97, 4> shorter;
  shorter.run();
  shorter.check_against_formula(tolerance_v<T>);
}

TEST_CASE("gradients are the central differences of the forward pass") {
  using heads = core<double, 35, 41, 4>;
  heads c;
  c.run();
  // d/dx Σ y·dy by differences of 1e-5: truncation 1e-10, rounding 1e-16 / 1e-5 times the sum's size.
  auto const loss = [&c] {
    attentions::attention_core<35, 41, 4>(c.q.data(), 4, c.k.data(), 4, c.v.data(), 4, c.y.data(), 4, c.lse.data(),
                                          c.scratch.data());
    double sum = 0;
    for (std::size_t i = 0; i < c.y.size(); ++i) sum += c.y[i] * c.dy[i];
    return sum;
  };
  double worst = 0;
  auto const compare = [&](guarded<double>& x, guarded<double>& dx) {
    for (std::size_t i = 0; i < x.size(); i += 3) {
      double const kept = x[i], h = 1e-5;
      x[i] = kept + h;
      double const above = loss();
      x[i] = kept - h;
      double const below = loss();
      x[i] = kept;
      worst = std::fmax(worst, std::fabs((above - below) / (2 * h) - dx[i]));
    }
  };
  compare(c.q, c.dq);
  compare(c.k, c.dk);
  compare(c.v, c.dv);
  CHECK(worst < 1e-8);
}

TEST_CASE_TEMPLATE("large scores do not overflow", T, float, double) {
  core<T, 100, 100, 16> c;
  for (std::size_t i = 0; i < c.q.size(); ++i) {
    c.q[i] *= T(60);
    c.k[i] *= T(60);
  }
  c.run();
  plain_attention const plain(100, 100, 16, c.doubles(c.q), c.doubles(c.k), c.doubles(c.v), c.doubles(c.dy));
  // Scores reach thousands: their rounding, 1e4 times that of 1, is the error of a probability.
  double const tolerance = sizeof(T) == 4 ? 5e-3 : 1e-11;
  CHECK(largest_error(c.y, plain.y) < tolerance);
  CHECK(largest_error(c.dv, plain.dv) < tolerance);
}

TEST_CASE_TEMPLATE("a NaN reaches what sees it", T, float, double) {
  core<T, 70, 70, 4> c;
  c.k[43 * 4] = std::numeric_limits<T>::quiet_NaN();
  c.run();
  for (std::size_t i = 0; i < 70; ++i) CHECK(std::isnan(c.y[i * 4]) == (i >= 43));
  // A value is multiplied by the probability 0 in the group of eight queries that meets its key first.
  core<T, 70, 70, 4> d;
  d.v[43 * 4] = std::numeric_limits<T>::quiet_NaN();
  d.run();
  for (std::size_t i = 0; i < 70; ++i) {
    if (i >= 43) {
      CHECK(std::isnan(d.y[i * 4]));
      CHECK(std::isnan(d.dq[i * 4]));
    } else if (i < 40) {
      CHECK(!std::isnan(d.y[i * 4]));
      CHECK(!std::isnan(d.dq[i * 4]));
    }
  }
}

TEST_CASE_TEMPLATE("batch and heads may be split without changing a bit", T, float, double) {
  constexpr std::size_t s = 50, d = 8, row = 4 * d;  // per key-value head: two queries, key, value
  guarded<T> whole(2 * s * 2 * row), y(2 * s * 4 * d), lse(2 * 4 * s),
      scratch(attentions::attention_scratch<2, s, 2, 2, d>());
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<T>(scattered(i));
  attentions::attention<2, s, 2, 2, d>(whole.data(), y.data(), lse.data(), scratch.data());
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t h = 0; h < 2; ++h) {
      guarded<T> part(s * row), part_y(s * 2 * d), part_lse(2 * s);
      for (std::size_t i = 0; i < s; ++i)
        for (std::size_t e = 0; e < row; ++e) part[i * row + e] = whole[((b * s + i) * 2 + h) * row + e];
      attentions::attention<1, s, 1, 2, d>(part.data(), part_y.data(), part_lse.data(), scratch.data());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < s; ++i)
        for (std::size_t e = 0; e < 2 * d; ++e) wrong += part_y[i * 2 * d + e] != y[((b * s + i) * 2 + h) * 2 * d + e];
      for (std::size_t i = 0; i < 2 * s; ++i) wrong += part_lse[i] != lse[(b * 2 + h) * 2 * s + i];
      CHECK(wrong == 0);
    }
}

}  // namespace attention_test
