// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <type_traits>

#include "shared.hpp"

// Atomic operations on global memory, where the threads of the emulation take turns anyway, and on elements of shared
// memory, whose arrays tell them from other accesses.
namespace heddle::emulation {

/// Where an atomic operation acts: a pointer to global memory, or the address of an element of shared memory.
template <class Where>
struct atomic_target;
template <class T>
requires std::is_arithmetic_v<T>
struct atomic_target<T> {
  using type = T;
  template <class Change>
  static T update(T* there, Change const& change) {
    T const old = *there;
    *there = change(old);
    return old;
  }
};
template <class Element>
requires requires { typename Element::value_type; }
struct atomic_target<Element> {
  using type = typename Element::value_type;
  template <class Change>
  static type update(Element* there, Change const& change) {
    return there->update(change);
  }
};

}  // namespace heddle::emulation

// NOLINTBEGIN: the names are CUDA's.
template <class Where, class Target = heddle::emulation::atomic_target<Where>>
auto atomicAdd(Where* there, typename Target::type value) {
  using T = typename Target::type;
  return Target::update(there, [=](T old) { return static_cast<T>(old + value); });
}
template <class Where, class Target = heddle::emulation::atomic_target<Where>>
auto atomicMax(Where* there, typename Target::type value) {
  using T = typename Target::type;
  static_assert(std::is_integral_v<T>, "CUDA has atomicMax for integers alone");
  return Target::update(there, [=](T old) { return old > value ? old : value; });
}
template <class Where, class Target = heddle::emulation::atomic_target<Where>>
auto atomicCAS(Where* there, typename Target::type compare, typename Target::type value) {
  using T = typename Target::type;
  static_assert(std::is_integral_v<T>, "CUDA has atomicCAS for integers alone");
  return Target::update(there, [=](T old) { return old == compare ? value : old; });
}
// NOLINTEND
