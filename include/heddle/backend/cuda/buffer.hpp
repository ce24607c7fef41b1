// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>

namespace heddle::cuda {

/// An argument of a launch that points to `count` elements which the kernel uses. The kernel is given the pointer. The
/// emulated device (tests/emulation) is told what is used, and finds races between streams, and what lies outside.
template <class T>
struct buffer {
  T* data = nullptr;
  std::size_t count = 0;
  bool written = false;
};
template <class T>
constexpr buffer<T const> reads(T const* data, std::size_t count) {
  return {data, count, false};
}
/// Written, and perhaps read.
template <class T>
constexpr buffer<T> writes(T* data, std::size_t count) {
  return {data, count, true};
}

/// Bytes that a kernel reaches by a pointer that lies in another argument, or in device memory.
struct memory_use {
  void const* begin = nullptr;
  std::size_t bytes = 0;
  bool written = false;
};
template <class T>
constexpr memory_use use_of(buffer<T> const& one) {
  return {one.data, one.count * sizeof(T), one.written};
}

/// An argument, and what the kernel reaches through it: a list of tensors.
template <class A>
struct carrier {
  A value;
  std::span<memory_use const> uses;
};
template <class A>
carrier<A> carries(A const& value, std::span<memory_use const> uses) {
  return {value, uses};
}

}  // namespace heddle::cuda
