// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <support/accumulator.cuh>
#include <type_traits>
#include <vector>

namespace heddle::emulation {

/// The type in which tests hold elements of T: float for a narrow one, so that the host's primitives take them.
template <class T>
using wide = std::conditional_t<std::is_arithmetic_v<T>, T, kernels::accumulator_t<T>>;

/// How T rounds; CUDA's headers do not specialise std::numeric_limits for their own types.
template <class T>
struct rounding {
  static constexpr double epsilon = static_cast<double>(std::numeric_limits<T>::epsilon());
  static constexpr double least = static_cast<double>(std::numeric_limits<T>::denorm_min());
  static constexpr double most = static_cast<double>(std::numeric_limits<T>::max());
};
template <>
struct rounding<__nv_bfloat16> {
  static constexpr double epsilon = 0x1p-7, least = 0x1p-133, most = 0x1.FEp127;
};
template <>
struct rounding<__half> {
  static constexpr double epsilon = 0x1p-10, least = 0x1p-24, most = 65504;
};

/// `all` as T holds it.
template <class T>
std::vector<wide<T>> rounded(std::vector<wide<T>> all) {
  for (wide<T>& one : all) one = static_cast<wide<T>>(static_cast<T>(one));
  return all;
}

/// Numbers of T in [-spread, spread], the same for the same seed.
template <class T>
std::vector<wide<T>> values(std::size_t n, std::uint64_t seed, double spread = 1) {
  std::vector<wide<T>> all(n);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (wide<T>& one : all) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    one = static_cast<wide<T>>((static_cast<double>(state >> 11) / 9007199254740992.0 * 2 - 1) * spread);
  }
  return rounded<T>(all);
}

/// The largest magnitude of the finite elements.
template <class A>
double largest(std::vector<A> const& all) {
  double most = 0;
  for (A const one : all)
    if (std::isfinite(static_cast<double>(one))) most = std::fmax(most, std::fabs(static_cast<double>(one)));
  return most;
}

/// What a kernel wrote as T, against what it has in the type that it computes in. Equal to `ulps` roundings there of
/// the vector's own magnitude, or of `terms`, that of what its elements are differences of, and to one rounding of the
/// element where T is narrower; NaN where NaN is expected.
template <class T>
void check_near(std::vector<wide<T>> const& got, std::vector<wide<T>> const& expected, double ulps = 32,
                double terms = 0) {
  REQUIRE(got.size() == expected.size());
  double const bound = ulps * rounding<wide<T>>::epsilon * std::fmax(largest(expected), terms);
  constexpr bool narrow = !std::is_same_v<T, wide<T>>;
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = got.size(); i-- > 0;) {
    auto const g = static_cast<double>(got[i]), e = static_cast<double>(expected[i]);
    double const step = narrow ? (rounding<T>::epsilon * (std::fabs(e) + bound) + rounding<T>::least) / 2 : 0;
    bool const same = g == e || g == static_cast<double>(static_cast<wide<T>>(static_cast<T>(expected[i])));
    if (!same && !(std::isnan(g) && std::isnan(e)) && !(std::fabs(g - e) <= bound + step)) {
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
