// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <heddle/tensor/accumulation.hpp>
#include <type_traits>

#if defined(__FAST_MATH__)
#error "heddle's host backend: -ffast-math must be off: it removes NaN, and the fixed order of sums; use -O3 alone"
#endif

/// The vectors that the host primitives compute with: GNU vector types of the width of the target. Written out rather
/// than left to the auto-vectoriser, because without -ffast-math no compiler may vectorise a sum, and because a tail
/// runs through the same instructions as the bulk: the result for one element does not depend on where it stands. A
/// narrow type is computed with in float: `load` widens it, and `store` rounds.
namespace heddle::host::detail {

#if defined(__AVX512F__)
inline constexpr std::size_t lane_bytes = 64;
#elif defined(__AVX__)
inline constexpr std::size_t lane_bytes = 32;
#else
inline constexpr std::size_t lane_bytes = 16;
#endif

template <class T>
inline constexpr std::size_t lane_count_v = lane_bytes / sizeof(accumulation_t<T>);

/// How a narrow type is widened to lanes of float and rounded: specialised beside the type (elements.hpp), with
///   lanes<float> widen(std::uint16_t const*), and void round(lanes<float> const&, std::uint16_t*)
/// for `lane_count_v<float>` elements.
template <class T>
struct narrow_number {
  static constexpr bool exists = false;
};
template <class T>
inline constexpr bool is_narrow = narrow_number<T>::exists;

template <class T>
struct lane_types {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || is_narrow<T>,
                "lane_types<T>: 'T' must be float, double, host::bfloat16 or host::float16; convert other element "
                "types before the host primitive");
  using number = accumulation_t<T>;
  using word = std::conditional_t<sizeof(number) == 4, std::uint32_t, std::uint64_t>;
  typedef number vector __attribute__((vector_size(lane_bytes)));
  typedef word words __attribute__((vector_size(lane_bytes)));
};

template <class T>
using lanes = typename lane_types<T>::vector;

/// A whole vector, as a type: `load` and `store` of it are one instruction; a `std::size_t` count is the tail.
template <class T>
using whole = std::integral_constant<std::size_t, lane_count_v<T>>;

template <class T>
inline lanes<T> broadcast(T value) {
  return value - lanes<T>{};
}

template <class T>
inline lanes<T> load(T const* from, whole<T>, accumulation_t<T> = 0) {
  if constexpr (is_narrow<T>) {
    return narrow_number<T>::widen(reinterpret_cast<std::uint16_t const*>(from));
  } else {
    lanes<T> out;
    std::memcpy(&out, from, lane_bytes);
    return out;
  }
}

/// The first `count` elements, then `fill`.
template <class T>
inline lanes<T> load(T const* from, std::size_t count, accumulation_t<T> fill = 0) {
  lanes<T> out = broadcast(fill);
  if constexpr (is_narrow<T>) {
    std::uint16_t some[lane_count_v<T>] = {};
    std::memcpy(some, static_cast<void const*>(from), count * sizeof(T));
    lanes<T> const wide = narrow_number<T>::widen(some);
    std::memcpy(&out, &wide, count * sizeof(accumulation_t<T>));
  } else {
    std::memcpy(&out, from, count * sizeof(T));
  }
  return out;
}

template <class T>
inline void store(T* to, lanes<T> const& value, std::size_t count = lane_count_v<T>) {
  if constexpr (is_narrow<T>) {
    std::uint16_t some[lane_count_v<T>];
    narrow_number<T>::round(value, some);
    std::memcpy(static_cast<void*>(to), some, count * sizeof(T));
  } else {
    std::memcpy(to, &value, count * sizeof(T));
  }
}

/// `value` as it would come back from memory: what an operand of a product of T is.
template <class T>
inline lanes<T> rounded_to(lanes<T> const& value) {
  if constexpr (is_narrow<T>) {
    std::uint16_t some[lane_count_v<T>];
    narrow_number<T>::round(value, some);
    return narrow_number<T>::widen(some);
  } else {
    return value;
  }
}

/// Calls `body(begin, count)` for each group of lanes of 0..n-1 in order; `count` is `whole<T>` but for the tail.
template <class T, class Body>
inline void for_each_group(std::size_t n, Body body) {
  constexpr std::size_t width = lane_count_v<T>;
  std::size_t i = 0;
  for (; i + width <= n; i += width) body(i, whole<T>{});
  if (i < n) body(i, n - i);
}

/// Sum of the lanes, pairwise, in one order.
template <class T>
inline T sum_of_lanes(lanes<T> const& value) {
  T part[lane_count_v<T>];
  std::memcpy(part, &value, lane_bytes);
  for (std::size_t half = lane_count_v<T> / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) part[i] += part[i + half];
  return part[0];
}

/// Σ over 0..n-1 of `term(begin, count)`, whose lanes past the tail must be 0. Four running sums hide the latency of
/// the addition; the order is the same in every call.
template <class T, class Term>
inline T sum_over(std::size_t n, Term term) {
  constexpr std::size_t width = lane_count_v<T>;
  lanes<T> s0{}, s1{}, s2{}, s3{};
  std::size_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    s0 += term(i, whole<T>{});
    s1 += term(i + width, whole<T>{});
    s2 += term(i + 2 * width, whole<T>{});
    s3 += term(i + 3 * width, whole<T>{});
  }
  for (; i + width <= n; i += width) s0 += term(i, whole<T>{});
  if (i < n) s1 += term(i, n - i);
  return sum_of_lanes<T>((s0 + s1) + (s2 + s3));
}

}  // namespace heddle::host::detail
