// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/names.hpp>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <limits>
#include <span>
#include <type_traits>

namespace heddle {

/// The cross-entropy of [batch, sequence, Vocab] logits with the targets of the step: a *sum* over counted tokens. The
/// count, over all ranks and micro-batches, is known before the first backward and divides once; so the gradient is the
/// mean's however the tokens are cut into micro-batches and ranks. Targets equal to the context's ignore index count
/// nowhere.
///
/// **Layouts.** `Vocab` may be split: a maximum and a sum are reduced over its axes (arXiv 1909.08053 §3:
/// batch·sequence elements instead of the logits), and padded columns take no part. The result is partial over the axes
/// that split batch and sequence, and stays so: the trainer reduces it once a step. **Saves** one log-sum-exp per
/// token, and the logits; but where there are more columns than the plan's `logit_panels`, and a product gives them, it
/// takes them panel by panel, and backward has that product compute them again (`panelled_step`).
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
      share const s = share_of(c, f.scratch + 3 * rows);
      T *const row_max = f.scratch, *const row_sum = row_max + rows, *const target_logit = row_sum + rows;
      B::template cross_entropy_max<rows, columns>(x, s.valid, row_max);
      c.max_over(axes, std::span<T>(row_max, rows));
      B::template cross_entropy_sum<rows, columns>(x, s.valid, s.origin, s.targets, row_max, row_sum, target_logit);
      *y = loss_of(c, f, s, row_max);
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const* x, T const*, T const* dy, T* dx) {
      share const s = share_of(c, f.scratch);
      Context::backend::template cross_entropy_backward<rows, columns>(x, s.valid, s.origin, s.targets,
                                                                       c.ignore_index(), f.saved, *dy, dx);
    }

    static constexpr bool takes_columns = true;
    // The rows' sums of the panels so far, and those of one panel.
    static constexpr std::size_t columns_forward_scratch = 6 * rows + target_slots;

    template <class Context, class Give>
    static void forward_by_columns(Context& c, frame<T> const& f, T* y, Give give) {
      using B = typename Context::backend;
      T *const all = f.scratch, *const part = all + 3 * rows;
      share const s = share_of(c, f.scratch + 6 * rows);
      auto const merge = [&] {
        B::template cross_entropy_merge<rows>(part, part + rows, part + 2 * rows, all, all + rows, all + 2 * rows);
      };
      B::template fill<rows>(-std::numeric_limits<T>::infinity(), all);
      B::template fill<2 * rows>(T(0), all + rows);
      give([&]<std::size_t Width>(std::integral_constant<std::size_t, Width>, std::size_t first, T const* panel) {
        std::size_t const valid = s.template valid_of<Width>(first);
        B::template cross_entropy_max<rows, Width>(panel, valid, part);
        B::template cross_entropy_sum<rows, Width>(panel, valid, s.origin + static_cast<std::int64_t>(first), s.targets,
                                                   part, part + rows, part + 2 * rows);
        merge();
      });
      if constexpr (axes != 0) {  // to the maximum of all ranks, by a merge with no columns of that maximum
        B::template copy<rows>(static_cast<T const*>(all), part);
        B::template fill<2 * rows>(T(0), part + rows);
        c.max_over(axes, std::span<T>(part, rows));
        merge();
      }
      *y = loss_of(c, f, s, all);
    }
    template <class Context, class Give>
    static void backward_by_columns(Context& c, frame<T> const& f, T const* dy, Give give) {
      share const s = share_of(c, f.scratch);
      give([&]<std::size_t Width>(std::integral_constant<std::size_t, Width>, std::size_t first, T* panel) {
        Context::backend::template cross_entropy_backward<rows, Width>(
            static_cast<T const*>(panel), s.template valid_of<Width>(first),
            s.origin + static_cast<std::int64_t>(first), s.targets, c.ignore_index(), f.saved, *dy, panel);
      });
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
    /// This rank's columns, those from `origin` on of which `valid` are real, and the targets of its tokens.
    struct share {
      std::size_t valid;
      std::int64_t origin;
      std::int32_t const* targets;
      /// Of the `Width` columns from its column `first` on.
      template <std::size_t Width>
      [[nodiscard]] std::size_t valid_of(std::size_t first) const {
        std::size_t const left = valid > first ? valid - first : 0;
        return left < Width ? left : Width;
      }
    };
    template <class Context>
    static share share_of(Context& c, T* room) {
      block_range const mine = Place::template block<typename Vocab::name>(c.at());
      return {mine.valid, static_cast<std::int64_t>(mine.origin), local_targets(c, room)};
    }
    /// From `row_max` of all ranks, and behind it this rank's sums and target logits.
    template <class Context>
    static T loss_of(Context& c, frame<T> const& f, share const& s, T* row_max) {
      c.sum_over(axes, std::span<T>(row_max + rows, 2 * rows));
      return static_cast<T>(Context::backend::template cross_entropy_loss<rows>(
          s.targets, c.ignore_index(), row_max, row_max + rows, row_max + 2 * rows, f.saved));
    }
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
