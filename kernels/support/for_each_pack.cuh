// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/vector.cuh>

namespace heddle::kernels {

/// body(i, count, whole) for each pack of `n` elements, dealt to all threads of the grid.
template <class T, int Threads, class Body>
__device__ void for_each_pack(long long n, bool aligned, Body const& body) {
  constexpr int step = pack_width<T>;
  long long const stride = static_cast<long long>(gridDim.x) * Threads * step;
  for (long long i = (static_cast<long long>(blockIdx.x) * Threads + threadIdx.x) * step; i < n; i += stride) {
    int const count = n - i < step ? static_cast<int>(n - i) : step;
    body(i, count, aligned && count == step);
  }
}

}  // namespace heddle::kernels
