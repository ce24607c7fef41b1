// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <heddle/backend/cuda/buffer.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cudart/accesses.hpp"
#include "launch.hpp"

namespace heddle::emulation {

/// What a launch says of its kernel before it calls cudaLaunchKernel, whose stand-in would otherwise have addresses
/// without types.
struct announcement {
  void const* kernel = nullptr;
  std::string name;
  std::vector<range> uses;
  std::function<std::function<void()>(void** arguments)> bind;  ///< the kernel with a copy of its arguments
};
/// The calling thread's next launch.
inline announcement& announced() {
  thread_local announcement next;
  return next;
}

namespace detail {

inline void note_use(std::vector<range>& uses, cuda::memory_use const& one) {
  if (one.begin != nullptr)
    uses.push_back({reinterpret_cast<std::uintptr_t>(one.begin), one.bytes, 1, 0, one.written, side::mapped});
}
template <class T>
void note_uses(std::vector<range>&, T const&) {}
template <class T>
void note_uses(std::vector<range>& uses, cuda::buffer<T> const& one) {
  note_use(uses, cuda::use_of(one));
}
template <class A>
void note_uses(std::vector<range>& uses, cuda::carrier<A> const& one) {
  for (cuda::memory_use const& use : one.uses) note_use(uses, use);
}

template <auto Kernel, class... Parameters, std::size_t... I>
std::function<void()> bound(void** arguments, std::index_sequence<I...>) {
  return
      [values = std::tuple<Parameters...>(*static_cast<Parameters*>(arguments[I])...)] { std::apply(Kernel, values); };
}

}  // namespace detail

template <auto Kernel, class... Parameters, class... Arguments>
void announce(Arguments const&... arguments) {
  announcement next{reinterpret_cast<void const*>(Kernel), kernel_of(typeid(detail::tag<Kernel>)), {}, {}};
  (detail::note_uses(next.uses, arguments), ...);
  next.bind = [](void** values) {
    return detail::bound<Kernel, Parameters...>(values, std::index_sequence_for<Parameters...>{});
  };
  announced() = std::move(next);
}

}  // namespace heddle::emulation
