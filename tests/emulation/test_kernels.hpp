// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/device.cuh>

namespace heddle::emulation {

/// data[i] = data[i] · by + plus
template <class T, int Threads>
__global__ void scale(T* data, T by, T plus, int n) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) data[i] = data[i] * by + plus;
}
/// out[i] = a[i] + b[i]
template <class T, int Threads>
__global__ void add(T* out, T const* a, T const* b, int n) {
  int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = a[i] + b[i];
}
/// Two pointers in one argument.
struct two_arrays {
  float* out;
  float const* in;
};
template <int Threads>
__global__ void copy_pair(two_arrays arrays) {
  arrays.out[threadIdx.x] = arrays.in[threadIdx.x];
}
/// data[i] = the i-th from the end of 0, 1, … size - 1, through as many elements of dynamic shared memory.
template <int Threads>
__global__ void through_dynamic_shared(double* data, int size) {
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const all = memory.take<double>(size);
  for (int i = static_cast<int>(threadIdx.x); i < size; i += Threads) all[i] = i;
  __syncthreads();
  data[threadIdx.x] = all[size - 1 - static_cast<int>(threadIdx.x)];
}
/// Its threads read what other threads wrote, with no barrier between.
template <int Threads>
__global__ void forgetful(int* out) {
  HEDDLE_SHARED(shared, Threads, int);
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  out[threadIdx.x] = shared[Threads - 1 - threadIdx.x];
}
template <int Threads>
__global__ void write_at(float* data, int at) {
  if (threadIdx.x == 0) data[at] = 1.0F;
}

}  // namespace heddle::emulation
