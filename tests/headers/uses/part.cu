// SPDX-License-Identifier: Apache-2.0
#include "core.hpp"

namespace {
__global__ void draw(heddle::random_key key, double* out) {
  heddle::random_stream const numbers(key);
  out[threadIdx.x] = heddle::normal(numbers.word(threadIdx.x), numbers.word(threadIdx.x, 1));
}
}  // namespace

/// Where there is no device, nothing is launched; the kernel is linked all the same.
double HEDDLE_PART() {
  double* out = nullptr;
  if (cudaMalloc(&out, 32 * sizeof(double)) == cudaSuccess) {
    draw<<<1, 32>>>({.seed = 1, .step = 2, .site = 3}, out);
    cudaDeviceSynchronize();
    cudaFree(out);
  }
  return uses::core();
}
