// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/elementary.hpp>
#include <heddle/backend/host/embedding.hpp>
#include <heddle/tensor/argument_checks.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace heddle::host {

namespace detail {

template <class T>
inline void cross_entropy_max(std::size_t rows, std::size_t width, T const* logits, std::size_t valid,
                              accumulation_t<T>* row_max) {
  using A = accumulation_t<T>;
  constexpr A lowest = -std::numeric_limits<A>::infinity();
  deal_rows(rows, valid, function_grain, [=](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      T const* const x = logits + row * width;
      lanes<T> highest = broadcast(lowest);
      // Once NaN, a lane stays NaN: a broken row must give a broken loss.
      for_each_group<T>(valid, [&](std::size_t i, auto count) {
        lanes<T> const value = load(x + i, count, lowest);
        highest = highest >= value ? highest : (highest == highest ? value : highest);
      });
      A result = highest[0];
      for (std::size_t i = 1; i < lane_count_v<T>; ++i)
        if (!(result >= highest[i]) && result == result) result = highest[i];
      row_max[row] = result;
    }
  });
}

template <class T>
inline void cross_entropy_sum(std::size_t rows, std::size_t width, T const* logits, std::size_t valid,
                              std::int64_t first, std::int32_t const* targets, accumulation_t<T> const* row_max,
                              accumulation_t<T>* row_sum, accumulation_t<T>* target_logit) {
  using A = accumulation_t<T>;
  A const lowest = -std::numeric_limits<A>::infinity();
  deal_rows(rows, valid, function_grain, [=](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      T const* const x = logits + row * width;
      A const highest = row_max[row];
      row_sum[row] = sum_over<A>(valid, [x, highest, lowest](std::size_t i, auto count) {
        return exponential<A>(load(x + i, count, lowest) - highest);
      });
      std::size_t const column = table_row(targets[row], first, valid);
      target_logit[row] = column < valid ? static_cast<A>(x[column]) : A(0);
    }
  });
}

template <class T>
inline double cross_entropy_loss(std::size_t rows, std::int32_t const* targets, std::int32_t ignore_index,
                                 T const* row_max, T const* row_sum, T const* target_logit, T* log_sum_exp) {
  double loss = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    T const logarithm = std::log(row_sum[row]);
    log_sum_exp[row] = row_max[row] + logarithm;
    // Large logits of nearly equal size cancel exactly here; log_sum_exp - target_logit would lose the logarithm's
    // digits.
    if (targets[row] != ignore_index)
      loss +=
          static_cast<double>(logarithm) + (static_cast<double>(row_max[row]) - static_cast<double>(target_logit[row]));
  }
  return loss;
}

template <class T>
inline void cross_entropy_backward(std::size_t rows, std::size_t width, T const* logits, std::size_t valid,
                                   std::int64_t first, std::int32_t const* targets, std::int32_t ignore_index,
                                   accumulation_t<T> const* log_sum_exp, accumulation_t<T> scale, T* dlogits) {
  using A = accumulation_t<T>;
  deal_rows(rows, width, function_grain, [=](std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row) {
      T const* const x = logits + row * width;
      T* const dx = dlogits + row * width;
      bool const counts = targets[row] != ignore_index;
      std::size_t const real = counts ? valid : 0;
      if (counts) {
        A const normaliser = log_sum_exp[row];
        // Read before dx, which may be x, takes its place.
        std::size_t const column = table_row(targets[row], first, valid);
        lanes<T> at_target{};
        if constexpr (is_narrow<T>)
          if (column < valid) at_target = scale * exponential<A>(load(x + column, std::size_t{1}) - normaliser) - scale;
        for_each_group<T>(valid, [=](std::size_t i, auto count) {
          store<T>(dx + i, scale * exponential<A>(load(x + i, count) - normaliser), count);
        });
        if (column < valid) {
          if constexpr (is_narrow<T>)
            store<T>(dx + column, at_target, 1);  // rounded once
          else
            dx[column] -= scale;
        }
      }
      for (std::size_t i = real; i < width; ++i) dx[i] = T(0);
    }
  });
}

}  // namespace detail

/// Cross-entropy with softmax over a vocabulary that may be split: logits[Rows,Vocab] are the columns `first` to
/// `first + Vocab - 1` of the whole; only the first `valid` <= Vocab of them (maybe none) are real, the others are
/// padding, which takes no part and gets gradients of exactly 0. The caller reduces between the steps over the ranks
/// that share the vocabulary: `row_max` by maximum after the first, `row_sum` and `target_logit` by sum after the
/// second. Nothing divides by a token count: that is the loss's, over all ranks and micro-batches. The split softmax is
/// Megatron-LM's (Shoeybi et al., arXiv 1909.08053 §3).
struct cross_entropy {
  /// row_max[Rows] of the real columns; -infinity where there are none. NaN if a real logit is NaN.
  template <std::size_t Rows, std::size_t Vocab, class T>
  static void cross_entropy_max(T const* logits, std::size_t valid, accumulation_t<T>* row_max) {
    detail::cross_entropy_max(Rows, Vocab, logits, valid, row_max);
  }

  /// row_sum[Rows] = Σ exp(logit - row_max) over the real columns; target_logit[Rows], 0 where the target is not here.
  template <std::size_t Rows, std::size_t Vocab, class T>
  static void cross_entropy_sum(T const* logits, std::size_t valid, std::int64_t first, std::int32_t const* targets,
                                accumulation_t<T> const* row_max, accumulation_t<T>* row_sum,
                                accumulation_t<T>* target_logit) {
    detail::cross_entropy_sum(Rows, Vocab, logits, valid, first, targets, row_max, row_sum, target_logit);
  }

  /// log_sum_exp[Rows] for the backward pass, and *loss = Σ (log_sum_exp - target_logit) over the rows whose target is
  /// not `ignore_index`, in the order of the rows: a sum, in nats, added up in double.
  template <std::size_t Rows, class T>
  static void cross_entropy_loss(std::int32_t const* targets, std::int32_t ignore_index, T const* row_max,
                                 T const* row_sum, T const* target_logit, T* log_sum_exp, T* loss) {
    *loss = static_cast<T>(
        detail::cross_entropy_loss(Rows, targets, ignore_index, row_max, row_sum, target_logit, log_sum_exp));
  }

  /// dlogits[Rows,Vocab] = *scale·(softmax - onehot(target)); exactly 0 in ignored rows and padded columns. It may be
  /// `logits` itself.
  template <std::size_t Rows, std::size_t Vocab, class T>
  static void cross_entropy_backward(T const* logits, std::size_t valid, std::int64_t first,
                                     std::int32_t const* targets, std::int32_t ignore_index,
                                     accumulation_t<T> const* log_sum_exp, accumulation_t<T> const* scale, T* dlogits) {
    detail::cross_entropy_backward(Rows, Vocab, logits, valid, first, targets, ignore_index, log_sum_exp, *scale,
                                   dlogits);
  }

  /// `heddle::check_targets`
  static void check_targets(std::int32_t const* targets, std::size_t n, std::size_t vocabulary,
                            std::int32_t ignore_index) {
    heddle::check_targets(targets, n, vocabulary, ignore_index);
  }
};

}  // namespace heddle::host
