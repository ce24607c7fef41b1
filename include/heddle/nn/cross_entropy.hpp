// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/names.hpp>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/nn/targets.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <span>

namespace heddle {

/// The cross-entropy of [batch, sequence, Vocab] logits with the targets of the step: a *sum* over counted tokens. The
/// count, over all ranks and micro-batches, is known before the first backward and divides once; so the gradient is the
/// mean's however the tokens are cut into micro-batches and ranks. Targets equal to the context's ignore index count
/// nowhere.
///
/// **Layouts.** `Vocab` may be split: a maximum and a sum are reduced over its axes (arXiv 1909.08053 §3:
/// batch·sequence elements instead of the logits), and padded columns take no part. The result is partial over the axes
/// that split batch and sequence, and stays so: the trainer reduces it once a step. **Saves** one log-sum-exp per
/// token, and the logits; but where a product gives them, they are computed and used up in chunks of tokens
/// (`chunked_loss`), and nothing is saved.
/// **Moves** over the axes of `Vocab`: a maximum of T and a sum of 2T elements for T local tokens, in forward, or in
/// backward for the tokens of each chunk. Where the vocabulary, or the sequence, has taken an axis from the batch: the
/// targets, once in each direction, or in chunks once.
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
    using A = accumulation_t<T>;
    static constexpr std::size_t saved = room_for<T, A>(rows);
    static constexpr std::size_t independent_rows = rows;
    static constexpr bool backward_in_place = true;
    // Maximum, sum and target logit of each row, then the targets.
    static constexpr std::size_t row_sums = room_for<T, A>(3 * rows);
    static constexpr std::size_t forward_scratch = row_sums + target_slots<Place, rows>;
    static constexpr std::size_t backward_scratch = target_slots<Place, rows>;

    template <class Context>
    static void forward(Context& c, frame<T> const& f, T const* x, T* y) {
      using B = typename Context::backend;
      share const s = share_of(c, f.scratch + row_sums);
      A *const row_max = reinterpret_cast<A*>(f.scratch), *const row_sum = row_max + rows,
               *const target_logit = row_sum + rows;
      B::template cross_entropy_max<rows, columns>(x, s.valid, row_max);
      c.max_over(axes, std::span<A>(row_max, rows));
      B::template cross_entropy_sum<rows, columns>(x, s.valid, s.origin, s.targets, row_max, row_sum, target_logit);
      c.sum_over(axes, std::span<A>(row_sum, 2 * rows));
      B::template cross_entropy_loss<rows>(s.targets, c.ignore_index(), row_max, row_sum, target_logit,
                                           reinterpret_cast<A*>(f.saved), loss_value(y));
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const* x, T const*, T const* dy, T* dx) {
      share const s = share_of(c, f.scratch);
      Context::backend::template cross_entropy_backward<rows, columns>(
          x, s.valid, s.origin, s.targets, c.ignore_index(), reinterpret_cast<A const*>(f.saved), loss_value(dy), dx);
    }

    static constexpr void count_forward(traffic_table& t, coordinates const& at) {
      count_redistribution<std::int32_t>(t, Place::mesh, at, Place::token_path);
      count_reduction<A>(t, Place::mesh, at, axes, rows);
      count_reduction<A>(t, Place::mesh, at, axes, 2 * rows);
    }
    static constexpr void count_backward(traffic_table& t, coordinates const& at) {
      count_redistribution<std::int32_t>(t, Place::mesh, at, Place::token_path);
    }

   private:
    /// This rank's columns, those from `origin` on of which `valid` are real, and the targets of its tokens.
    struct share {
      std::size_t valid;
      std::int64_t origin;
      std::int32_t const* targets;
    };
    template <class Context>
    static share share_of(Context& c, T* room) {
      block_range const mine = Place::template block<typename Vocab::name>(c.at());
      return {mine.valid, static_cast<std::int64_t>(mine.origin), local_targets<Place, rows>(c, room)};
    }
  };
};

}  // namespace heddle
