// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/lanes.hpp>

#include <cmath>
#include <limits>

#if defined(__AVX512F__) || defined(__AVX__)
#include <immintrin.h>
#endif

/// Elementary functions on vectors of lanes. Without -ffast-math compilers call the scalar library once per element;
/// Eigen's vectorised exponential saturates instead of giving 0 and infinity, and its tanh exists for float only.
namespace heddle::host::detail {

template <class T>
struct exponential_constants;

template <>
struct exponential_constants<float> {
  static constexpr float round = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the low bits
  static constexpr float ln2_high = 0.693359375f,
                         ln2_low = -2.12194440e-4f;  // ln2_high has 9 bits: n·ln2_high is exact
  static constexpr float highest = 89, lowest = -87.3f;
  static constexpr std::uint32_t half_exponent = 126u << 23, exponent_shift = 23;
  static constexpr int degree = 7;  // remainder (ln2/2)^8/8! = 5e-9, below half an ulp
};

template <>
struct exponential_constants<double> {
  static constexpr double round = 6755399441055744.0;  // 1.5·2^52
  static constexpr double ln2_high = 0.693145751953125, ln2_low = 1.42860682030941723212e-6;
  static constexpr double highest = 710, lowest = -708.3;
  static constexpr std::uint64_t half_exponent = std::uint64_t{1022} << 52, exponent_shift = 52;
  static constexpr int degree = 13;  // remainder (ln2/2)^14/14! = 4e-18
};

template <class T>
struct inverse_factorials {
  T value[16]{};
  constexpr inverse_factorials() {
    double product = 1;
    for (int i = 0; i < 16; ++i) {
      if (i > 1) product *= i;
      value[i] = static_cast<T>(1 / product);
    }
  }
};

/// e^x to about one ulp: x = n·ln 2 + r, Taylor's series of e^r for |r| <= ln2/2. NaN for NaN; infinity where e^x
/// exceeds the largest number; exactly 0 below 2^-125.5 (float) or 2^-1021.5 (double), so that a logit of -infinity has
/// no weight.
///
/// Both ends come from the scale 2^(n-1)·2: n = 128 (float) can overflow in the last product, and n = -126 makes the
/// biased exponent of 2^(n-1) zero. x is clamped to just beyond them.
template <class T>
inline lanes<T> exponential(lanes<T> const& x) {
  using constants = exponential_constants<T>;
  using words = typename lane_types<T>::words;
  constexpr inverse_factorials<T> taylor{};
  lanes<T> const below = broadcast(constants::highest) < x ? broadcast(constants::highest) : x;
  lanes<T> const clamped = broadcast(constants::lowest) > below ? broadcast(constants::lowest) : below;
  lanes<T> const shifted = clamped * T(1.4426950408889634074) + constants::round;
  lanes<T> const n = shifted - constants::round;
  lanes<T> const r = (clamped - n * constants::ln2_high) - n * constants::ln2_low;
  lanes<T> sum = broadcast(taylor.value[constants::degree]);
  for (int i = constants::degree - 1; i >= 0; --i) sum = sum * r + taylor.value[i];
  words const exponent = ((words)shifted << constants::exponent_shift) + constants::half_exponent;  // of 2^(n-1)
  return sum * (lanes<T>)exponent * T(2);
}

/// 1/(1 + e^-x)
template <class T>
inline lanes<T> sigmoid(lanes<T> const& x) {
  return T(1) / (T(1) + exponential<T>(-x));
}

/// Correctly rounded square roots. (std::sqrt reports errors in errno, which keeps compilers from vectorising it.)
template <class T>
inline lanes<T> square_root(lanes<T> const& x) {
#if defined(__AVX512F__)
  // With a mask of all lanes: g++ 12 warns of the undefined operand of the form without (gcc bug 105593).
  if constexpr (sizeof(T) == 4)
    return (lanes<T>)_mm512_maskz_sqrt_ps(0xFFFF, (__m512)x);
  else
    return (lanes<T>)_mm512_maskz_sqrt_pd(0xFF, (__m512d)x);
#elif defined(__AVX__)
  if constexpr (sizeof(T) == 4)
    return (lanes<T>)_mm256_sqrt_ps((__m256)x);
  else
    return (lanes<T>)_mm256_sqrt_pd((__m256d)x);
#else
  lanes<T> out{};
  for (std::size_t i = 0; i < lane_count_v<T>; ++i) out[i] = std::sqrt(x[i]);
  return out;
#endif
}

template <class T>
struct normal {
  lanes<T> density;       ///< φ(x) = e^(-x²/2)/√(2π)
  lanes<T> distribution;  ///< Φ(x)
};

/// Φ(x) and φ(x) of the normal distribution, Φ accurate relative to itself also in the lower tail. For double it is the
/// library's erfc, one element at a time: double serves to check. For float, Φ(-√2·z) = e^(-z²)·f(t), t = 1/(1 + z/2),
/// where f interpolates ½·erfc(z)·e^(z²) at 11 Chebyshev nodes of 1/6 <= t <= 1 with weights that even out the relative
/// error (3.2e-8, computed with 40 digits); beyond z = 10 e^(-z²) is 0.
template <class T>
inline normal<T> standard_normal(lanes<T> const& x) {
  lanes<T> const bell = exponential<T>(T(-0.5) * x * x);
  lanes<T> distribution{};
  if constexpr (sizeof(T) == 8) {
    for (std::size_t i = 0; i < lane_count_v<T>; ++i)
      distribution[i] = T(0.5) * std::erfc(x[i] * T(-0.70710678118654752440));
  } else {
    constexpr T f[] = {7.20742554747e-6f, 0.140848723293f,  0.143435659912f, 0.106903156467f,
                       0.160973086758f,   -0.172004996267f, 0.419314158323f, -0.568907348431f,
                       0.380455631344f,   -0.129156503881f, 0.0181312250117f};
    lanes<T> const z = (x < T(0) ? -x : x) * T(0.70710678118654752440);
    lanes<T> const t = T(1) / (T(1) + T(0.5) * z);
    lanes<T> sum = broadcast(f[10]);
    for (int i = 9; i >= 0; --i) sum = sum * t + f[i];
    lanes<T> const tail = sum * bell;
    distribution = x < T(0) ? tail : T(1) - tail;
  }
  return {bell * T(0.39894228040143267794), distribution};
}

}  // namespace heddle::host::detail
