// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/vector.cuh>

/// 16 bytes of an array in dynamic shared memory in one access, from an element on that stands at a multiple of 16
/// bytes. `Shared` is what `take` gives.
namespace heddle::kernels {

template <class T>
using raw_elements = detail::raw_pack<T, pack_width<T>>;

#if defined(HEDDLE_EMULATED_DEVICE)
template <class T, class Shared>
raw_elements<T> load_shared(Shared const& from, int at, emulation::place const& place = emulation::place::here()) {
  emulation::require_whole_packs(at, sizeof(T), place);
  raw_elements<T> out;
  for (int j = 0; j < pack_width<T>; ++j) out.value[j] = from[at + j];
  return out;
}
template <class T, class Shared>
void store_shared(Shared const& to, int at, raw_elements<T> const& in,
                  emulation::place const& place = emulation::place::here()) {
  emulation::require_whole_packs(at, sizeof(T), place);
  for (int j = 0; j < pack_width<T>; ++j) to[at + j] = in.value[j];
}
#else
template <class T, class Shared>
__device__ raw_elements<T> load_shared(Shared const& from, int at) {
  return *reinterpret_cast<raw_elements<T> const*>(from + at);
}
template <class T, class Shared>
__device__ void store_shared(Shared const& to, int at, raw_elements<T> const& in) {
  *reinterpret_cast<raw_elements<T>*>(to + at) = in;
}
#endif

}  // namespace heddle::kernels
