// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/names.hpp>
#include <heddle/nn/dims_algebra.hpp>
#include <heddle/nn/op.hpp>

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
    // cos and sin of every position and pair
    static constexpr std::size_t table = positions * (width / 2);
    static constexpr std::size_t forward_scratch = 2 * table;
    static constexpr std::size_t backward_scratch = 2 * table;

    template <class Context>
    static void forward(Context& c, frame<T> const& f, T const* x, T* y) {
      prepare(c, f);
      if (x != y) Context::backend::template copy<Place::input_size>(x, y);
      Context::backend::template rotary<batch_size, positions, kv_heads, Group, width>(y, f.scratch, f.scratch + table);
    }
    template <class Context>
    static void backward(Context& c, frame<T> const& f, T const*, T const*, T const* dy, T* dx) {
      prepare(c, f);
      if (dx != dy) Context::backend::template copy<Place::input_size>(dy, dx);
      Context::backend::template rotary_backward<batch_size, positions, kv_heads, Group, width>(dx, f.scratch,
                                                                                                f.scratch + table);
    }

   private:
    template <class Context>
    static void prepare(Context const& c, frame<T> const& f) {
      std::array<std::int64_t, positions> at{};
      std::size_t const first = Place::template block<typename Sequence::name>(c.at()).origin;
      for (std::size_t i = 0; i < positions; ++i) at[i] = static_cast<std::int64_t>(first + i);
      Context::backend::template rotary_table<positions, width>(at.data(), Base.theta, f.scratch, f.scratch + table);
    }
  };
};

}  // namespace heddle
