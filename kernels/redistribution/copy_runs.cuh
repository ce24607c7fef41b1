// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/for_each_pack.cuh>

namespace heddle::kernels::detail {

/// to[0..count) = `from`, of which only the first `real` (at most 0: none) are there, then zeros. `count` is at most a
/// pack. In one access of 16 bytes where that can be.
template <class T>
__device__ void copy_padded(T const* from, long long real, T* to, int count) {
  constexpr int step = pack_width<T>;
  using raw = raw_pack<T, step>;
  if (count == step && real >= step && aligned_for_packs(from, to)) {
    HEDDLE_ALIGNED(from, 16);
    HEDDLE_ALIGNED(to, 16);
    *reinterpret_cast<raw*>(to) = *reinterpret_cast<raw const*>(from);
  } else {
    for (int j = 0; j < step; ++j)
      if (j < count) to[j] = j < real ? from[j] : T(0.0F);
  }
}

/// Where an element of a packed copy is in the tensor: at `base` if `real` > 0, with as many of the tensor's elements
/// from it on, itself included; `left` elements of the copy, itself included, lie together.
struct run_position {
  long long base, real, left;
};

/// body(i, position, count) for each pack of n elements of a packed copy: in one, where a run holds it, else by
/// element.
template <class T, int Threads, class Locate, class Body>
__device__ void for_each_run(long long n, Locate const& locate, Body const& body) {
  for_each_pack<T, Threads>(n, true, [&](long long i, int count, bool) {
    run_position at = locate(i);
    if (at.left >= count) {
      body(i, at, count);
    } else {
      for (int j = 0; j < count; ++j) {
        if (j > 0) at = locate(i + j);
        body(i + j, at, 1);
      }
    }
  });
}

}  // namespace heddle::kernels::detail
