// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/reduce.cuh>

namespace heddle::kernels {

/// sum[s] = Σ part[i] over i = first[s]..first[s + 1] - 1, by block s of a `row_grid` of the sums; 0 for none.
/// `first` has an entry more than there are blocks. The second stage of sums over a whole array, whose first stage
/// leaves a part for each of its blocks: the order depends on `Threads` and on the first stage's cut alone. The sum is
/// rounded once, to `Result`: a loss is summed in double, and used in the type of the model.
template <class N, class Result, int Threads>
__global__ void __launch_bounds__(Threads) sum_parts(N const* part, long long const* first, Result* sum) {
  HEDDLE_SHARED(sums, Threads / warp_lanes, N);
  N own = 0;
  for (long long i = first[blockIdx.x] + threadIdx.x; i < first[blockIdx.x + 1]; i += Threads) own += part[i];
  own = block_reduce<Threads>(own, sums, sum_of{});
  if (threadIdx.x == 0) sum[blockIdx.x] = Result(own);
}

/// *sum = Σ part[count], rounded once; with `Adds`, *sum += it. One block.
template <class N, class Result, bool Adds, int Threads>
__global__ void __launch_bounds__(Threads) sum_up(N const* part, long long count, Result* sum) {
  HEDDLE_SHARED(sums, Threads / warp_lanes, N);
  N own = 0;
  for (long long i = threadIdx.x; i < count; i += Threads) own += part[i];
  own = block_reduce<Threads>(own, sums, sum_of{});
  if (threadIdx.x == 0) *sum = Result(Adds ? N(*sum) + own : own);
}

}  // namespace heddle::kernels
