// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/names.hpp>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <span>

namespace heddle {

/// The cross-entropy of [batch, sequence, Vocab] logits with the targets of the step: a *sum* over counted tokens. The
/// count, over all ranks and micro-batches, is known before the first backward and divides once; so the gradient is the
/// mean's however the tokens are cut into micro-batches and ranks. Targets equal to the context's ignore index count
/// nowhere.
///
/// **Layouts.** `Vocab` may be split: a maximum and a sum are reduced over its axes (arXiv 1909.08053 §3:
/// batch·sequence elements instead of the logits), and padded columns take no part. The result is partial over the axes
/// that split batch and sequence, and stays so: the trainer reduces it once a step. **Saves** the logits and one
/// log-sum-exp per token.
/// **Moves**, forward, over the axes of `Vocab`: a maximum of T and a sum of 2T elements for T local tokens. Where the
/// vocabulary, or the sequence, has taken an axis from the batch: the targets, once in each direction.
template <class Vocab>
struct cross_entropy : primitive {
  using is_loss = void;
  static constexpr std::size_t identities = Vocab::size;  ///< targets that it can count
  using parameters = parameter_list<>;
  static constexpr dimension_list reduced = dims<Vocab>::value;
  template <class Input>
  using output = dims<>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    static constexpr std::size_t columns = Place::template extent<typename Vocab::name>;
    static constexpr std::size_t rows = Place::input_size / columns;
    static constexpr unsigned axes = Place::template axes_of<typename Vocab::name>();
    static constexpr std::size_t saved = rows;
    // Targets of this op's tokens, and what redistributing them needs.
    static constexpr std::size_t target_slots =
        ((rows + redistribution_scratch(Place::mesh, Place::token_path)) * sizeof(std::int32_t) + sizeof(T) - 1) /
        sizeof(T);
    // Maximum, sum and target logit of each row, then the targets.
    static constexpr std::size_t forward_scratch = 3 * rows + target_slots;
    static constexpr std::size_t backward_scratch = target_slots;

    template <class Context>
    static void forward(Context& c, frame<T> const& f, T const* x, T* y) {
      using B = typename Context::backend;
      block_range const mine = Place::template block<typename Vocab::name>(c.at());
      T* const row_max = f.scratch;
      T* const row_sum = f.scratch + rows;
      T* const target_logit = f.scratch + 2 * rows;
      std::int32_t const* const targets = local_targets(c, f.scratch + 3 * rows);
      B::template cross_entropy_max<rows, columns>(x, mine.valid, row_max);
      c.max_over(axes, std::span<T>(row_max, rows));
      B::template cross_entropy_sum<rows, columns>(x, mine.valid, static_cast<std::int64_t>(mine.origin), targets,
                                                   row_max, row_sum, target_logit);
      c.sum_over(axes, std::span<T>(row_sum, 2 * rows));
      *y = static_cast<T>(
          B::template cross_entropy_loss<rows>(targets, c.ignore_index(), row_max, row_sum, target_logit, f.saved));
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const* x, T const*, T const* dy, T* dx) {
      block_range const mine = Place::template block<typename Vocab::name>(c.at());
      std::int32_t const* const targets = local_targets(c, f.scratch);
      Context::backend::template cross_entropy_backward<rows, columns>(
          x, mine.valid, static_cast<std::int64_t>(mine.origin), targets, c.ignore_index(), f.saved, *dy, dx);
    }
    static constexpr void count_forward(traffic_table& t, coordinates const& at) {
      count_redistribution<std::int32_t>(t, Place::mesh, at, Place::token_path);
      count_reduction<T>(t, Place::mesh, at, axes, rows);
      count_reduction<T>(t, Place::mesh, at, axes, 2 * rows);
    }
    static constexpr void count_backward(traffic_table& t, coordinates const& at) {
      count_redistribution<std::int32_t>(t, Place::mesh, at, Place::token_path);
    }

   private:
    /// The targets of this op's tokens: a slice where the op splits the sequence, gathered where it holds more of the
    /// batch than this rank was given.
    template <class Context>
    static std::int32_t const* local_targets(Context& c, T* room) {
      if constexpr (Place::token_path.empty()) {
        return c.targets();
      } else {
        auto* const mine = reinterpret_cast<std::int32_t*>(room);
        c.redistribute(Place::token_path, c.targets(), mine, mine + rows);
        return mine;
      }
    }
  };
};

}  // namespace heddle
