// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle {

namespace detail {
template <class T>
struct accumulation {
  using type = float;
};
template <>
struct accumulation<double> {
  using type = double;
};
}  // namespace detail

/// In what values of type T are computed with and summed, on every backend: double for double, float for all others.
template <class T>
using accumulation_t = typename detail::accumulation<T>::type;

/// Elements of T that have room for `n` of U. What a module keeps beside values (`frame::saved`, `frame::scratch`) may
/// be of a wider type than they are.
template <class T, class U>
constexpr std::size_t room_for(std::size_t n) {
  return (n * sizeof(U) + sizeof(T) - 1) / sizeof(T);
}

/// What a value is where it is a loss, or the cotangent of one: a sum over all tokens, too long for a narrow type. A
/// loss module's `y` and `dy` lead to such a number.
template <class T>
accumulation_t<T>* loss_value(T* y) {
  return reinterpret_cast<accumulation_t<T>*>(y);
}
template <class T>
accumulation_t<T> const* loss_value(T const* y) {
  return reinterpret_cast<accumulation_t<T> const*>(y);
}

}  // namespace heddle
