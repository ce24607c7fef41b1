// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cross_entropy/cross_entropy.cuh>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/tensor/argument_checks.hpp>

namespace heddle::cuda {

/// `host::cross_entropy` on a device: the same steps, between which the caller reduces over the ranks that share the
/// vocabulary. Statistics are in the type that is computed with; the loss and its cotangent lie in device memory.
struct cross_entropy {
  template <class T>
  using statistic = kernels::accumulator_t<T>;

  /// row_max[Rows] of the real columns
  template <std::size_t Rows, std::size_t Vocab, class T>
  static void cross_entropy_max(T const* logits, std::size_t valid, statistic<T>* row_max) {
    constexpr int threads = detail::row_threads<T>(Vocab);
    if constexpr (Rows != 0)
      detail::run<kernels::cross_entropy_max<detail::plain_t<T>, threads>, threads>(
          kernels::row_grid(Rows), reads(logits, Rows * Vocab), Vocab, valid, writes(row_max, Rows));
  }
  /// row_sum[Rows] = Σ exp(logit - row_max) over the real columns; target_logit[Rows], 0 where the target is not here
  template <std::size_t Rows, std::size_t Vocab, class T>
  static void cross_entropy_sum(T const* logits, std::size_t valid, std::int64_t first, std::int32_t const* targets,
                                statistic<T> const* row_max, statistic<T>* row_sum, statistic<T>* target_logit) {
    constexpr int threads = detail::row_threads<T>(Vocab);
    if constexpr (Rows != 0)
      detail::run<kernels::cross_entropy_sum<detail::plain_t<T>, threads>, threads>(
          kernels::row_grid(Rows), reads(logits, Rows * Vocab), Vocab, valid, first, reads(targets, Rows),
          reads(row_max, Rows), writes(row_sum, Rows), writes(target_logit, Rows));
  }
  /// log_sum_exp[Rows] for the backward pass, and *loss = Σ (log_sum_exp - target_logit) over the rows whose target is
  /// not `ignore_index`, added up in double
  template <std::size_t Rows, class A, class Loss>
  static void cross_entropy_loss(std::int32_t const* targets, std::int32_t ignore_index, A const* row_max,
                                 A const* row_sum, A const* target_logit, A* log_sum_exp, Loss* loss) {
    double* const parts = execution::current().parts();
    if constexpr (Rows == 0) {
      fill_zero<Loss>(execution::current().compute(), {loss, 1});
    } else {
      constexpr dim3 grid = kernels::thread_grid<detail::threads>(Rows, execution::most_parts);
      detail::run<kernels::cross_entropy_loss<detail::plain_t<A>, detail::threads>>(
          grid, Rows, reads(targets, Rows), ignore_index, reads(row_max, Rows), reads(row_sum, Rows),
          reads(target_logit, Rows), writes(log_sum_exp, Rows), writes(parts, grid.x));
      detail::sum_up<false>(parts, grid.x, loss);
    }
  }
  /// dlogits[Rows,Vocab] = *scale·(softmax - onehot(target)); it may be `logits` itself
  template <std::size_t Rows, std::size_t Vocab, class T>
  static void cross_entropy_backward(T const* logits, std::size_t valid, std::int64_t first,
                                     std::int32_t const* targets, std::int32_t ignore_index,
                                     statistic<T> const* log_sum_exp, statistic<T> const* scale, T* dlogits) {
    constexpr int threads = detail::row_threads<T>(Vocab);
    if constexpr (Rows * Vocab != 0)
      detail::run<kernels::cross_entropy_backward<detail::plain_t<T>, threads>, threads>(
          kernels::row_grid(Rows), reads(logits, Rows * Vocab), Vocab, valid, first, reads(targets, Rows), ignore_index,
          reads(log_sum_exp, Rows), reads(scale, 1), writes(dlogits, Rows * Vocab));
  }
  /// `heddle::check_targets`, of the host's targets
  static void check_targets(std::int32_t const* targets, std::size_t n, std::size_t vocabulary,
                            std::int32_t ignore_index) {
    heddle::check_targets(targets, n, vocabulary, ignore_index);
  }
};

}  // namespace heddle::cuda
