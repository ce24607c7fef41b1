// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace heddle::emulation {

/// Numbers in [-spread, spread], the same for the same seed.
template <class T>
std::vector<T> values(std::size_t n, std::uint64_t seed, double spread = 1) {
  std::vector<T> all(n);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (T& one : all) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    one = static_cast<T>((static_cast<double>(state >> 11) / 9007199254740992.0 * 2 - 1) * spread);
  }
  return all;
}

/// The largest magnitude of the finite elements.
template <class T>
double largest(std::vector<T> const& all) {
  double most = 0;
  for (T const one : all)
    if (std::isfinite(static_cast<double>(one))) most = std::fmax(most, std::fabs(static_cast<double>(one)));
  return most;
}

/// Equal to `ulps` roundings of the vector's own magnitude, or of `terms`, that of what its elements are differences
/// of; NaN where NaN is expected.
template <class T>
void check_near(std::vector<T> const& got, std::vector<T> const& expected, double ulps = 32, double terms = 0) {
  REQUIRE(got.size() == expected.size());
  double const scale = std::fmax(largest(expected), terms);
  double const bound = ulps * static_cast<double>(std::numeric_limits<T>::epsilon()) * scale;
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = got.size(); i-- > 0;) {
    auto const g = static_cast<double>(got[i]), e = static_cast<double>(expected[i]);
    bool const right = g == e || (std::isnan(g) && std::isnan(e)) || std::fabs(g - e) <= bound;
    if (!right) {
      ++wrong;
      first = i;
    }
  }
  if (wrong != 0) {
    CAPTURE(first);
    CAPTURE(got[first]);
    CAPTURE(expected[first]);
    CHECK(wrong == 0);
  } else {
    CHECK(wrong == 0);
  }
}

}  // namespace heddle::emulation
