// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/buffer.hpp>
#include <span>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "cudart/accesses.hpp"
#include "launch.hpp"

namespace heddle::emulation {

/// Where the copy of a parameter lies among the others.
struct parameter_place {
  std::size_t bytes = 0;
  std::size_t offset = 0;
};

/// What a launch says of its kernel before it calls cudaLaunchKernel, whose stand-in would otherwise have addresses
/// without types.
struct announcement {
  void const* kernel = nullptr;
  std::type_info const* tag = nullptr;  ///< `kernel_of` has its name
  std::vector<range> uses;
  void (*call)(void const* const* parameters) = nullptr;  ///< the kernel, on one thread
  std::span<parameter_place const> parameters;
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

/// Of parameters laid one behind the other. A kernel's are copied byte by byte, here as by CUDA.
template <class... Parameters>
struct parameter_places {
  static_assert((std::is_trivially_copyable_v<Parameters> && ...));
  static_assert(((alignof(Parameters) <= alignof(std::max_align_t)) && ...));
  static constexpr auto value = [] {
    std::array<parameter_place, sizeof...(Parameters)> places{
        parameter_place{sizeof(Parameters), alignof(Parameters)}...};
    std::size_t end = 0;
    for (parameter_place& one : places) {  // `offset` is the alignment until here
      one.offset = (end + one.offset - 1) / one.offset * one.offset;
      end = one.offset + one.bytes;
    }
    return places;
  }();
};

template <auto Kernel, class Index, class... Parameters>
struct caller;
template <auto Kernel, std::size_t... I, class... Parameters>
struct caller<Kernel, std::index_sequence<I...>, Parameters...> {
  static void call([[maybe_unused]] void const* const* parameters) {
    Kernel(*static_cast<Parameters const*>(parameters[I])...);
  }
};

}  // namespace detail

template <auto Kernel, class... Parameters, class... Arguments>
void announce(Arguments const&... arguments) {
  announcement& next = announced();
  next = {reinterpret_cast<void const*>(Kernel),
          &typeid(detail::tag<Kernel>),
          {},
          &detail::caller<Kernel, std::index_sequence_for<Parameters...>, Parameters...>::call,
          detail::parameter_places<Parameters...>::value};
  (detail::note_uses(next.uses, arguments), ...);
}

}  // namespace heddle::emulation
