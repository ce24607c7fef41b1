// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/eigen.hpp>
#include <heddle/backend/host/lanes.hpp>
#include <heddle/comm/element.hpp>
#include <heddle/precision/element.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#if defined(__F16C__) && defined(__AVX__)
#include <immintrin.h>
#endif

namespace heddle::host {

/// The host's 16-bit numbers: Eigen's, which round to nearest, ties to even, as the device's do.
using bfloat16 = Eigen::bfloat16;
using float16 = Eigen::half;

namespace detail {

inline constexpr std::size_t float_lanes = lane_count_v<float>;
typedef std::uint16_t half_words __attribute__((vector_size(float_lanes * 2)));

template <>
struct narrow_number<bfloat16> {
  static constexpr bool exists = true;
  using words = lane_types<float>::words;
  /// A bfloat16 is the upper half of a float.
  static lanes<float> widen(std::uint16_t const* from) {
    half_words narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    words const wide = __builtin_convertvector(narrow, words) << 16;
    lanes<float> out;
    std::memcpy(&out, &wide, sizeof out);
    return out;
  }
  /// Half a unit is added, less one bit where the kept part is even; what overflows becomes infinity by the carry. A
  /// NaN stays one.
  static void round(lanes<float> const& value, std::uint16_t* to) {
    words bits;
    std::memcpy(&bits, &value, sizeof bits);
    words const nearest = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    words const chosen = value == value ? nearest : words{} + 0x7FC0U;
    half_words const narrow = __builtin_convertvector(chosen, half_words);
    std::memcpy(to, &narrow, sizeof narrow);
  }
};

template <>
struct narrow_number<float16> {
  static constexpr bool exists = true;
  static lanes<float> widen(std::uint16_t const* from) {
    lanes<float> out{};
#if defined(__F16C__) && defined(__AVX__)
    for (std::size_t i = 0; i < float_lanes; i += 8) {
      __m128i narrow;
      std::memcpy(&narrow, from + i, sizeof narrow);
      __m256 const wide = _mm256_cvtph_ps(narrow);
      std::memcpy(reinterpret_cast<char*>(&out) + i * sizeof(float), &wide, sizeof wide);
    }
#else
    for (std::size_t i = 0; i < float_lanes; ++i)
      out[i] = Eigen::half_impl::half_to_float(Eigen::half_impl::raw_uint16_to_half(from[i]));
#endif
    return out;
  }
  static void round(lanes<float> const& value, std::uint16_t* to) {
#if defined(__F16C__) && defined(__AVX__)
    for (std::size_t i = 0; i < float_lanes; i += 8) {
      __m256 wide;
      std::memcpy(&wide, reinterpret_cast<char const*>(&value) + i * sizeof(float), sizeof wide);
      __m128i const narrow = _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT);
      std::memcpy(to + i, &narrow, sizeof narrow);
    }
#else
    for (std::size_t i = 0; i < float_lanes; ++i) to[i] = Eigen::half_impl::float_to_half_rtne(value[i]).x;
#endif
  }
};

template <dtype Type>
struct number : heddle::detail::element_of<Type> {};
template <>
struct number<dtype::bfloat16> {
  using type = bfloat16;
};
template <>
struct number<dtype::float16> {
  using type = float16;
};

}  // namespace detail

/// The element types that the host computes with.
struct elements {
  template <dtype Type>
  using element = typename detail::number<Type>::type;
};

}  // namespace heddle::host

namespace heddle {

template <>
inline constexpr std::string_view element_name<host::bfloat16> = name_of(dtype::bfloat16);
template <>
inline constexpr std::string_view element_name<host::float16> = name_of(dtype::float16);

namespace comm {
template <>
struct element_traits<host::bfloat16> : detail::element_traits_of<element_kind::bfloat16, float> {};
template <>
struct element_traits<host::float16> : detail::element_traits_of<element_kind::float16, float> {};
}  // namespace comm

}  // namespace heddle
