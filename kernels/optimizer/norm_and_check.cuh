// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optimizer/tensor_list.cuh>
#include <support/reduce.cuh>
#include <support/sum_parts.cuh>
#include <support/vector.cuh>

/// Sums over the elements of listed tensors, in two stages of a fixed order: block b of the first leaves part[b] of
/// chunk b; `sum_parts` adds up each tensor's parts, with first[t] the first chunk of tensor t. So there is a figure
/// for each tensor: replicated ones count once in a norm (known-faults GN-1), and a check names the tensor. `part` has
/// an element a chunk. T is the type of the elements, for gradients that in which they are summed.
namespace heddle::kernels {

namespace detail {
/// Σ term(element) of x[n], with term(0) = 0; every thread of the block has it.
template <class N, int Threads, class T, class Shared, class Term>
__device__ N block_sum(T const* x, long long n, Shared& sums, Term term) {
  bool const aligned = aligned_for_packs(x);
  N sum = 0;
  for (long long i = static_cast<long long>(threadIdx.x) * pack_width<T>; i < n; i += Threads * pack_width<T>) {
    int const count = n - i < pack_width<T> ? static_cast<int>(n - i) : pack_width<T>;
    pack<T> const value = load_pack<T>(x + i, count, aligned && count == pack_width<T>);
    // The zeros after the last element add nothing.
    for (int j = 0; j < pack_width<T>; ++j) sum += term(value[j]);
  }
  return block_reduce<Threads>(sum, sums, sum_of{});
}
/// The same over the block's chunk.
template <class N, int Threads, class T, class Shared, class Term>
__device__ N chunk_sum(listed_tensor<T> const* tensors, tensor_chunk const* chunks, int length, Shared& sums,
                       Term term) {
  tensor_chunk const chunk = chunks[blockIdx.x];
  listed_tensor<T> const tensor = tensors[chunk.tensor];
  return block_sum<N, Threads>(tensor.x + chunk.begin, chunk_size(chunk, length, tensor.size), sums, term);
}
struct squared {
  template <class A>
  __device__ double operator()(A x) const {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};
/// x - x is 0 for finite numbers, and NaN for the others.
struct not_finite {
  template <class A>
  __device__ long long operator()(A x) const {
    return x - x == A(0) ? 0 : 1;
  }
};
}  // namespace detail

/// part[b] = Σ x² of chunk b, in double as on the host: squares of floats neither overflow nor vanish there.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    sum_of_squares(listed_tensor<T> const* tensors, tensor_chunk const* chunks, int length, double* part) {
  HEDDLE_SHARED(sums, Threads / warp_lanes, double);
  double const sum = detail::chunk_sum<double, Threads>(tensors, chunks, length, sums, detail::squared{});
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

/// The same of one array, which needs no list: part[b] = Σ x² of elements b·length to (b + 1)·length - 1 of x[n].
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    sum_of_squares_of_array(T const* x, long long n, long long length, double* part) {
  HEDDLE_SHARED(sums, Threads / warp_lanes, double);
  long long const begin = blockIdx.x * length, left = n - begin;
  double const sum =
      detail::block_sum<double, Threads>(x + begin, left < length ? left : length, sums, detail::squared{});
  if (threadIdx.x == 0) part[blockIdx.x] = sum;
}

/// part[b] = how many elements of chunk b are infinite or NaN. Counts rather than a flag that many blocks set: no two
/// threads write one place, and an error can say how many.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    count_not_finite(listed_tensor<T> const* tensors, tensor_chunk const* chunks, int length, long long* part) {
  HEDDLE_SHARED(sums, Threads / warp_lanes, long long);
  long long const count = detail::chunk_sum<long long, Threads>(tensors, chunks, length, sums, detail::not_finite{});
  if (threadIdx.x == 0) part[blockIdx.x] = count;
}

}  // namespace heddle::kernels
