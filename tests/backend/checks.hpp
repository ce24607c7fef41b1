// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace checks {

/// Values between `low` and `high` from a linear congruential generator (Knuth's MMIX constants): the same everywhere.
inline std::vector<double> values(std::size_t n, std::uint64_t seed, double low = -2, double high = 2) {
  std::vector<double> out(n);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (double& value : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = low + (high - low) * static_cast<double>(state >> 11) * 0x1p-53;
  }
  return out;
}

inline std::vector<float> narrowed(std::vector<double> const& x) {
  std::vector<float> out;
  for (double value : x) out.push_back(static_cast<float>(value));
  return out;
}

inline double dot(std::vector<double> const& x, std::vector<double> const& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

/// max |x - y| / max(1, |y|): relative, but absolute near 0.
template <class T, class U>
double distance(std::vector<T> const& x, std::vector<U> const& y) {
  REQUIRE(x.size() == y.size());
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const expected = static_cast<double>(y[i]);
    double const error = std::fabs(static_cast<double>(x[i]) - expected) / std::fmax(1.0, std::fabs(expected));
    if (!(error <= worst)) worst = error;  // a NaN is the worst
  }
  return worst;
}

/// Compares `gradient` with central differences of `loss()` in each element of `x`. The step 1e-5 balances the
/// truncation error h²/6·f''' of about 1e-10 with rounding, 1e-16·|loss|/h, about 1e-10 for the sums of some hundred
/// terms of size 1 that occur here; 1e-8 leaves room for third derivatives and sums of some dozens.
template <class Loss>
void gradient(std::vector<double>& x, std::vector<double> const& gradient, Loss loss) {
  constexpr double step = 1e-5;
  std::vector<double> numeric;
  for (double& value : x) {
    double const kept = value;
    value = kept + step;
    double const above = loss();
    value = kept - step;
    double const below = loss();
    value = kept;
    numeric.push_back((above - below) / (2 * step));
  }
  CHECK(distance(gradient, numeric) < 1e-8);
}

template <std::size_t N>
using size = std::integral_constant<std::size_t, N>;

/// Calls `body` with sizes that leave every kind of tail: less than a vector, a few, and one more than whole ones.
template <class Body>
void for_odd_sizes(Body body) {
  body(size<1>{});
  body(size<3>{});
  body(size<17>{});
  body(size<65>{});
}

}  // namespace checks
