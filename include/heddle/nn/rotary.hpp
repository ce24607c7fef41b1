// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/names.hpp>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/tensor/accumulation.hpp>

namespace heddle {

/// The base of rotary angles, as a template argument.
struct rotary_base {
  double theta = 10000;
};

/// Rotary positions (Su et al., arXiv 2104.09864) on the queries and keys of [batch, Sequence, Heads, qkv, HeadDim], in
/// place; pairs are (i, i + HeadDim/2) as in Llama.
///
/// **Layouts.** Pointwise but for qkv and head_dim, which are whole. A split sequence is rotated by its *global*
/// positions.
template <class Sequence, class Heads, std::size_t Group, class HeadDim, rotary_base Base = rotary_base{}>
struct rotary : primitive {
  using parameters = parameter_list<>;
  using qkv_dim = dim<qkv, Group + 2>;
  using in_dims = dims<Sequence, Heads, qkv_dim, HeadDim>;
  static_assert(
      HeadDim::size % 2 == 0,
      "rotary<Sequence, Heads, Group, HeadDim>: 'HeadDim' must be even, since it is rotated in pairs; change the "
      "number of heads or the width");
  static constexpr dimension_list whole = dims<qkv_dim, HeadDim>::value;
  template <class Input>
  using output = detail::replaced_t<rotary, Input, in_dims, in_dims>;

  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    static constexpr bool in_place = true;
    static constexpr std::size_t positions = Place::template extent<typename Sequence::name>;
    static constexpr std::size_t kv_heads = Place::template extent<typename Heads::name>;
    static constexpr std::size_t width = Place::template extent<typename HeadDim::name>;
    static constexpr std::size_t batch_size = Place::input_size / (positions * kv_heads * (Group + 2) * width);
    // The positions, then cos and sin of every position and pair. Not on the stack: a sequence can be long.
    static constexpr std::size_t position_slots = slot<T>(positions * sizeof(std::int64_t) / sizeof(T));
    using A = accumulation_t<T>;
    static constexpr std::size_t table = positions * (width / 2);
    static constexpr std::size_t forward_scratch = position_slots + room_for<T, A>(2 * table);
    static constexpr std::size_t backward_scratch = forward_scratch;

    template <class Context>
    static void forward(Context& c, frame<T> const& f, T const* x, T* y) {
      prepare(c, f);
      Context::backend::template rotary<batch_size, positions, kv_heads, Group, width>(x, y, cosine(f), sine(f));
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const*, T const*, T const* dy, T* dx) {
      prepare(c, f);
      Context::backend::template rotary_backward<batch_size, positions, kv_heads, Group, width>(dy, dx, cosine(f),
                                                                                                sine(f));
    }

   private:
    static A* cosine(frame<T> const& f) { return reinterpret_cast<A*>(f.scratch + position_slots); }
    static A* sine(frame<T> const& f) { return cosine(f) + table; }
    template <class Context>
    static void prepare(Context const& c, frame<T> const& f) {
      auto* const at = reinterpret_cast<std::int64_t*>(f.scratch);
      std::size_t const first = Place::template block<typename Sequence::name>(c.at()).origin;
      Context::backend::template count_up<positions>(static_cast<std::int64_t>(first), at);
      Context::backend::template rotary_table<positions, width>(at, Base.theta, cosine(f), sine(f));
    }
  };
};

}  // namespace heddle
