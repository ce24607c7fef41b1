// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a kernel finds on a device, for a host compiler: NVIDIA's headers, and the names that only nvcc knows.
#include <cuda_runtime.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "atomics.hpp"
#include "block.hpp"
#include "shared.hpp"

// NOLINTBEGIN: the names are CUDA's.
#define threadIdx (::heddle::emulation::block::current().thread_index())
#define blockIdx (::heddle::emulation::block::current().block_index())
#define blockDim (::heddle::emulation::block::current().shape())
#define gridDim (::heddle::emulation::block::current().grid())

#if !defined(__launch_bounds__)
#define __launch_bounds__(...)
#endif

#define HEDDLE_SHARED(name, size, ...)                                                                       \
  static char name##_declaration;                                                                            \
  auto& name = ::heddle::emulation::block::current().shared<::heddle::emulation::shared_array<__VA_ARGS__>>( \
      &name##_declaration, (size), (size) * sizeof(__VA_ARGS__), heddle::emulation::place::here())

#define HEDDLE_DYNAMIC_SHARED(name) ::heddle::emulation::dynamic_shared name

#define HEDDLE_UNROLL

#define HEDDLE_ALIGNED(pointer, bytes) \
  ::heddle::emulation::require_aligned(pointer, bytes, heddle::emulation::place::here())

inline void __syncthreads(heddle::emulation::place const& at = heddle::emulation::place::here()) {
  heddle::emulation::block::current().barrier(at);
}
inline void __syncwarp(unsigned mask = ~0U, heddle::emulation::place const& at = heddle::emulation::place::here()) {
  heddle::emulation::block::current().meet(heddle::emulation::meeting::sync, mask, {}, at);
}

namespace heddle::emulation {

inline void require_aligned(void const* pointer, std::size_t bytes, place const& at) {
  if (reinterpret_cast<std::uintptr_t>(pointer) % bytes != 0)
    block::current().fail("accesses " + std::to_string(bytes) + " bytes at " + text_of(at) +
                          ", at an address that is no multiple of it");
}

/// Element `at` of an array in shared memory, of elements of `bytes`, is at a multiple of 16 bytes.
inline void require_whole_packs(long long at, std::size_t bytes, place const& place) {
  if (at * static_cast<long long>(bytes) % 16 != 0)
    block::current().fail("accesses 16 bytes of shared memory at " + text_of(place) + " from element " +
                          std::to_string(at) + " on, which is at no multiple of it");
}

/// What the lane at `source` of the caller's segment of `width` lanes has given; the caller's own value where that lies
/// outside.
template <class T>
T shuffled(unsigned mask, T value, int source, bool inside, int width, place const& at) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  block& here = block::current();
  here.meet(meeting::shuffle, mask, {bits}, at, {sizeof(T), width});
  if (!inside) return value;
  if ((mask >> source & 1U) == 0)
    here.fail("reads by a shuffle at " + text_of(at) + " from lane " + std::to_string(source) +
              ", which its mask lacks");
  bits = here.left_by(static_cast<unsigned>(source))[0];
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
inline int lane() { return static_cast<int>(block::current().rank() % warp_size); }

/// The mask of the lanes of `mask` for which `predicate` holds.
inline unsigned ballot(unsigned mask, bool predicate, place const& at) {
  block& here = block::current();
  here.meet(meeting::vote, mask, {predicate ? 1U : 0U}, at);
  unsigned yes = 0;
  for (unsigned l = 0; l < warp_size; ++l)
    if ((mask >> l & 1U) != 0 && here.left_by(l)[0] != 0) yes |= 1U << l;
  return yes;
}

}  // namespace heddle::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              heddle::emulation::place const& at = heddle::emulation::place::here()) {
  int const first = heddle::emulation::lane() / width * width;
  return heddle::emulation::shuffled(mask, value, first + (source % width + width) % width, true, width, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  heddle::emulation::place const& at = heddle::emulation::place::here()) {
  int const me = heddle::emulation::lane(), source = me ^ lane_mask;
  return heddle::emulation::shuffled(mask, value, source, source < me / width * width + width, width, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   heddle::emulation::place const& at = heddle::emulation::place::here()) {
  int const me = heddle::emulation::lane(), source = me + static_cast<int>(delta);
  return heddle::emulation::shuffled(mask, value, source, source < me / width * width + width, width, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 heddle::emulation::place const& at = heddle::emulation::place::here()) {
  int const me = heddle::emulation::lane(), source = me - static_cast<int>(delta);
  return heddle::emulation::shuffled(mask, value, source, source >= me / width * width, width, at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              heddle::emulation::place const& at = heddle::emulation::place::here()) {
  return heddle::emulation::ballot(mask, predicate != 0, at);
}
inline int __any_sync(unsigned mask, int predicate,
                      heddle::emulation::place const& at = heddle::emulation::place::here()) {
  return heddle::emulation::ballot(mask, predicate != 0, at) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      heddle::emulation::place const& at = heddle::emulation::place::here()) {
  return heddle::emulation::ballot(mask, predicate != 0, at) == mask;
}
// NOLINTEND
