// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <heddle/tensor/table_row.hpp>
#include <support/math.cuh>
#include <support/reduce.cuh>
#include <support/vector.cuh>

/// Cross-entropy with softmax over a vocabulary that may be split, in the host's steps (`host::cross_entropy`):
/// logits[rows, width] are the columns `first` to `first + width - 1` of the whole, of which the first `valid` <= width
/// (maybe none) are real. What stands in the others is never used. Between the steps the ranks that share the
/// vocabulary reduce `row_max` by maximum, then `row_sum` and `target_logit` by sum. Megatron-LM, Shoeybi et al.,
/// arXiv 1909.08053 §3.
///
/// Grid: `row_grid`. Nothing but log_sum_exp is kept for backward, which computes the
/// probabilities again from the logits: keeping them would cost as much memory as the logits.
namespace heddle::kernels {

/// row_max of the real columns; -infinity where there are none. NaN if a real logit is NaN: a broken row must give a
/// broken loss.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    cross_entropy_max(T const* logits, int width, int valid, accumulator_t<T>* row_max) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(part, Threads / warp_lanes, A);
  long long const row = blockIdx.x;
  bool const whole = whole_packs<T>(width, logits);
  T const* const x = logits + row * width;
  A highest = -math::infinity<A>;
  for (int i = static_cast<int>(threadIdx.x) * pack_width<T>; i < valid; i += Threads * pack_width<T>) {
    pack<T> const value = load_pack<T>(x + i, valid - i, whole);
    for (int j = 0; j < pack_width<T>; ++j)
      if (j < valid - i) highest = max_of{}(highest, value[j]);
  }
  highest = block_reduce<Threads>(highest, part, max_of{});
  if (threadIdx.x == 0) row_max[row] = highest;
}

/// row_sum = Σ exp(logit - row_max) over the real columns, NaN where these are all -infinity; target_logit, 0 where the
/// target is not here.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    cross_entropy_sum(T const* logits, int width, int valid, long long first, std::int32_t const* targets,
                      accumulator_t<T> const* row_max, accumulator_t<T>* row_sum, accumulator_t<T>* target_logit) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(part, Threads / warp_lanes, A);
  long long const row = blockIdx.x;
  bool const whole = whole_packs<T>(width, logits);
  T const* const x = logits + row * width;
  A const highest = row_max[row];
  A sum = 0;
  for (int i = static_cast<int>(threadIdx.x) * pack_width<T>; i < valid; i += Threads * pack_width<T>) {
    pack<T> const value = load_pack<T>(x + i, valid - i, whole);
    for (int j = 0; j < pack_width<T>; ++j)
      if (j < valid - i) sum += math::exp(value[j] - highest);
  }
  sum = block_reduce<Threads>(sum, part, sum_of{});
  if (threadIdx.x == 0) {
    row_sum[row] = sum;
    long long const column = table_row(targets[row], first, valid);
    target_logit[row] = column < valid ? A(x[column]) : A(0);
  }
}

/// log_sum_exp for backward, and part[block] = Σ (log_sum_exp - target_logit) over the block's rows whose target is not
/// `ignore_index`, in nats. Grid: `thread_grid`, whose threads take further rows by turns, and `part` has an element a
/// block: `sum_parts` adds it up to the loss, in the type that the caller has for it. The sum is in double, and divided
/// by nothing.
template <class A, int Threads>
__global__ void __launch_bounds__(Threads)
    cross_entropy_loss(long long rows, std::int32_t const* targets, std::int32_t ignore_index, A const* row_max,
                       A const* row_sum, A const* target_logit, A* log_sum_exp, double* part) {
  HEDDLE_SHARED(sums, Threads / warp_lanes, double);
  double loss = 0;
  long long const stride = static_cast<long long>(gridDim.x) * Threads;
  for (long long row = static_cast<long long>(blockIdx.x) * Threads + threadIdx.x; row < rows; row += stride) {
    A const logarithm = math::log(row_sum[row]);
    log_sum_exp[row] = row_max[row] + logarithm;
    // Large logits of nearly equal size cancel exactly here; log_sum_exp - target_logit would lose the logarithm's
    // digits.
    if (targets[row] != ignore_index)
      loss +=
          static_cast<double>(logarithm) + (static_cast<double>(row_max[row]) - static_cast<double>(target_logit[row]));
  }
  loss = block_reduce<Threads>(loss, sums, sum_of{});
  if (threadIdx.x == 0) part[blockIdx.x] = loss;
}

/// dlogits[rows, width] = *scale·(softmax - onehot(target)); exactly 0 in rows to ignore and in padded columns. It may
/// be `logits` itself: each thread reads what it writes, and before. The scale, the cotangent of the loss, is in device
/// memory, where a step that is replayed as a graph finds it anew: it changes with the loss scale.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    cross_entropy_backward(T const* logits, int width, int valid, long long first, std::int32_t const* targets,
                           std::int32_t ignore_index, accumulator_t<T> const* log_sum_exp,
                           accumulator_t<T> const* scale, T* dlogits) {
  using A = accumulator_t<T>;
  long long const row = blockIdx.x;
  bool const whole = whole_packs<T>(width, logits, dlogits);
  T const* const x = logits + row * width;
  T* const dx = dlogits + row * width;
  std::int32_t const target = targets[row];
  int const real = target != ignore_index ? valid : 0;
  long long const column = table_row(target, first, valid);
  A const normaliser = log_sum_exp[row], weight = *scale;
  for (int i = static_cast<int>(threadIdx.x) * pack_width<T>; i < width; i += Threads * pack_width<T>) {
    // Where nothing is real, nothing is read: it might be NaN.
    pack<T> value = i < real ? load_pack<T>(x + i, width - i, whole) : pack<T>{};
    for (int j = 0; j < pack_width<T>; ++j) {
      A const probability = i + j < real ? math::product(weight, math::exp(value[j] - normaliser)) : A(0);
      value[j] = i + j < real && i + j == column ? probability - weight : probability;
    }
    store_pack(dx + i, value, width - i, whole);
  }
}

}  // namespace heddle::kernels
