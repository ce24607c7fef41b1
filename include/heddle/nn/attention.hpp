// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/names.hpp>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/tensor/accumulation.hpp>

namespace heddle {

/// Causal attention, multi-head and grouped-query (Vaswani et al., arXiv 1706.03762 §3.2; Ainslie et al., arXiv
/// 2305.13245): [batch, Sequence, Heads, qkv, HeadDim] → [batch, Sequence, Heads, group, HeadDim]. `Heads` counts
/// key/value heads; each has `Group` query heads, and `qkv` = Group + 2 holds its queries, its key and its value side
/// by side: so a split of `Heads` gives every rank whole heads with all their parts.
///
/// **Layouts.** Sequence, group, qkv and head_dim are whole; batch and heads may be split. **Memory** is linear in the
/// sequence: the log-sum-exp of each row is saved, no scores (arXiv 2205.14135). **Saves** x, y and [batch, heads,
/// group, sequence].
template <class Sequence, class Heads, std::size_t Group, class HeadDim>
struct causal_attention : primitive {
  using parameters = parameter_list<>;
  using qkv_dim = dim<qkv, Group + 2>;
  using group_dim = dim<group, Group>;
  using in_dims = dims<Sequence, Heads, qkv_dim, HeadDim>;
  using out_dims = dims<Sequence, Heads, group_dim, HeadDim>;
  static constexpr dimension_list whole = dims<Sequence, qkv_dim, group_dim, HeadDim>::value;
  template <class Input>
  using output = detail::replaced_t<causal_attention, Input, in_dims, out_dims>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool keeps_input = true;
    static constexpr bool keeps_output = true;
    static constexpr std::size_t sequence_length = Place::template extent<typename Sequence::name>;
    static constexpr std::size_t kv_heads = Place::template extent<typename Heads::name>;
    static constexpr std::size_t width = Place::template extent<typename HeadDim::name>;
    static constexpr std::size_t batch_size = Place::output_size / (sequence_length * kv_heads * Group * width);
    using A = accumulation_t<T>;
    static constexpr std::size_t saved = room_for<T, A>(batch_size * kv_heads * Group * sequence_length);
    static constexpr std::size_t forward_scratch = room_for<T, A>(
        Place::plan::backend::template attention_scratch<batch_size, sequence_length, kv_heads, Group, width>());
    static constexpr std::size_t backward_scratch =
        room_for<T, A>(Place::plan::backend::template attention_backward_scratch<batch_size, sequence_length, kv_heads,
                                                                                 Group, width>());

    template <class Context>
    static void forward(Context&, frame<T> const& f, T const* x, T* y) {
      Context::backend::template attention<batch_size, sequence_length, kv_heads, Group, width>(
          x, y, reinterpret_cast<A*>(f.saved), reinterpret_cast<A*>(f.scratch));
    }
    template <class Context>
    static void backward(Context&, frame<T> const& f, T const* x, T const* y, T const* dy, T* dx) {
      Context::backend::template attention_backward<batch_size, sequence_length, kv_heads, Group, width>(
          x, y, reinterpret_cast<A const*>(f.saved), dy, dx, reinterpret_cast<A*>(f.scratch));
    }
  };
};

}  // namespace heddle
