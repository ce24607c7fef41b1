// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/device.cuh>

namespace heddle::kernels {

inline constexpr int warp_lanes = 32;
inline constexpr unsigned all_lanes = 0xFFFFFFFFU;

struct sum_of {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// NaN on either side gives NaN.
struct max_of {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b || b != b ? b : a;
  }
};

/// `value` of all lanes of a warp, joined in a fixed order; every lane has the result. All lanes call.
template <class T, class Join>
__device__ T warp_reduce(T value, Join join) {
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2)
    value = join(value, __shfl_xor_sync(all_lanes, value, distance));
  return value;
}

/// `value` of all `Threads` threads of a block, joined in a fixed order; every thread has the result. All threads call.
/// `Threads` is a multiple of 32. `part` has room for one element a warp, and is free again at the block's next
/// barrier.
template <int Threads, class T, class Shared, class Join>
__device__ T block_reduce(T value, Shared& part, Join join) {
  static_assert(Threads % warp_lanes == 0 && Threads / warp_lanes <= warp_lanes);
  constexpr int warps = Threads / warp_lanes;
  value = warp_reduce(value, join);
  if constexpr (warps > 1) {
    int const thread = static_cast<int>(threadIdx.x);
    if (thread % warp_lanes == 0) part[thread / warp_lanes] = value;
    __syncthreads();
    value = part[0];
    for (int w = 1; w < warps; ++w) value = join(value, T(part[w]));
  }
  return value;
}

}  // namespace heddle::kernels
