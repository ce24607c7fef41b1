// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace heddle::comm {

/// The types of element a communicator can move. `byte` is opaque: it can be copied, not reduced.
enum class element_kind : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  int16,
  int32,
  int64,
  uint8,
  uint16,
  uint32,
  uint64,
  byte
};

/// The name used in messages and traces.
[[nodiscard]] constexpr char const* name_of(element_kind kind) {
  switch (kind) {
    case element_kind::float32:
      return "float32";
    case element_kind::float64:
      return "float64";
    case element_kind::float16:
      return "float16";
    case element_kind::bfloat16:
      return "bfloat16";
    case element_kind::int8:
      return "int8";
    case element_kind::int16:
      return "int16";
    case element_kind::int32:
      return "int32";
    case element_kind::int64:
      return "int64";
    case element_kind::uint8:
      return "uint8";
    case element_kind::uint16:
      return "uint16";
    case element_kind::uint32:
      return "uint32";
    case element_kind::uint64:
      return "uint64";
    case element_kind::byte:
      return "byte";
  }
  return "unknown";
}

/// What a communicator knows of an element type: its `kind`, and the `accumulator` in which a reduction computes. A
/// 16-bit float is specialised by the layer that defines it, with `float` as the accumulator (a chain of bfloat16
/// additions stalls). The primary template is empty: its type cannot be communicated.
template <class T>
struct element_traits {};

namespace detail {
template <element_kind Kind, class Accumulator>
struct element_traits_of {
  static constexpr element_kind kind = Kind;
  using accumulator = Accumulator;
};
}  // namespace detail

// Sums of integers wrap around: those narrower than 64 bits accumulate in 64, and wrap when the result is stored.
template <>
struct element_traits<float> : detail::element_traits_of<element_kind::float32, float> {};
template <>
struct element_traits<double> : detail::element_traits_of<element_kind::float64, double> {};
template <>
struct element_traits<std::int8_t> : detail::element_traits_of<element_kind::int8, std::int64_t> {};
template <>
struct element_traits<std::int16_t> : detail::element_traits_of<element_kind::int16, std::int64_t> {};
template <>
struct element_traits<std::int32_t> : detail::element_traits_of<element_kind::int32, std::int64_t> {};
template <>
struct element_traits<std::int64_t> : detail::element_traits_of<element_kind::int64, std::int64_t> {};
template <>
struct element_traits<std::uint8_t> : detail::element_traits_of<element_kind::uint8, std::uint64_t> {};
template <>
struct element_traits<std::uint16_t> : detail::element_traits_of<element_kind::uint16, std::uint64_t> {};
template <>
struct element_traits<std::uint32_t> : detail::element_traits_of<element_kind::uint32, std::uint64_t> {};
template <>
struct element_traits<std::uint64_t> : detail::element_traits_of<element_kind::uint64, std::uint64_t> {};
template <>
struct element_traits<std::byte> : detail::element_traits_of<element_kind::byte, void> {};

/// The kind of `T`, which may be const.
template <class T>
inline constexpr element_kind element_kind_of = element_traits<std::remove_const_t<T>>::kind;

/// A type a communicator can move.
template <class T>
concept Element = std::is_trivially_copyable_v<T> && requires {
  element_traits<std::remove_const_t<T>>::kind;
};

/// A type a communicator can also sum and compare.
template <class T>
concept ReducibleElement =
    Element<T> && !std::is_const_v<T> && !std::is_void_v<typename element_traits<std::remove_const_t<T>>::accumulator>;

}  // namespace heddle::comm
