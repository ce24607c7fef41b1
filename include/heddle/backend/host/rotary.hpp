// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <heddle/backend/host/deal.hpp>
#include <heddle/backend/host/lanes.hpp>

namespace heddle::host {

namespace detail {

template <std::size_t HeadDim>
struct rotary_shape {
  static_assert(
      HeadDim > 0 && HeadDim % 2 == 0,
      "rotary<HeadDim>: 'HeadDim' must be even, its halves are rotated against each other; choose a width and a "
      "number of heads that give an even head size");
  static constexpr std::size_t half = HeadDim / 2;
};

/// Rotates the pairs (i, i + half) of one row by the angles whose cosines and (times `sign`) sines are given. In
/// written-out vectors, tail included, so that a row's bits do not depend on which rows a rank holds beside it.
template <std::size_t HeadDim, class T>
inline void rotate_row(T const* x, T* y, accumulation_t<T> const* cosine, accumulation_t<T> const* sine,
                       accumulation_t<T> sign) {
  constexpr std::size_t half = rotary_shape<HeadDim>::half;
  for_each_group<T>(half, [=](std::size_t i, auto count) {
    lanes<T> const a = load(x + i, count), b = load(x + half + i, count);
    lanes<T> const c = load(cosine + i, count), s = load(sine + i, count) * sign;
    store<T>(y + i, a * c - b * s, count);
    store<T>(y + half + i, b * c + a * s, count);
  });
}

}  // namespace detail

/// Rotary positions (Su et al., arXiv 2104.09864, section 3.2.2) in the half-split pairing of Llama: element i of a
/// head turns with element i + HeadDim/2 by the angle position · theta^(-2i/HeadDim).
///
/// The positions are the *global* ones of the local rows: under context parallelism, or with a packed batch, row s of a
/// rank need not be token s. Nothing is allocated or moved.
struct rotary_positions {
  /// positions[Sequence] = first, first + 1, …
  template <std::size_t Sequence>
  static void count_up(std::int64_t first, std::int64_t* positions) {
    for (std::size_t s = 0; s < Sequence; ++s) positions[s] = first + static_cast<std::int64_t>(s);
  }

  /// Writes cosine and sine [Sequence, HeadDim/2] of the angles of `positions` [Sequence]; angles in double. `theta` is
  /// 10000 in the paper, 500000 in Llama 3.
  template <std::size_t Sequence, std::size_t HeadDim, class T>
  static void rotary_table(std::int64_t const* positions, double theta, T* cosine, T* sine) {
    constexpr std::size_t half = detail::rotary_shape<HeadDim>::half;
    for (std::size_t i = 0; i < half; ++i) {
      double const frequency = std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(HeadDim));
      for (std::size_t s = 0; s < Sequence; ++s) {
        double const angle = static_cast<double>(positions[s]) * frequency;
        cosine[s * half + i] = static_cast<T>(std::cos(angle));
        sine[s * half + i] = static_cast<T>(std::sin(angle));
      }
    }
  }

  /// Rotates queries and keys (slots 0..Group) of qkv [Batch, Sequence, KvHeads, Group + 2, HeadDim] to `out`, which
  /// may be qkv itself; values stay as they are.
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void rotary(T const* qkv, T* out, accumulation_t<T> const* cosine, accumulation_t<T> const* sine) {
    rotate<Batch, Sequence, KvHeads, Group, HeadDim>(qkv, out, cosine, sine, 1);
  }

  /// The backward: turns dqkv back, likewise, since a rotation's inverse is its transpose.
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void rotary_backward(T const* dqkv, T* out, accumulation_t<T> const* cosine, accumulation_t<T> const* sine) {
    rotate<Batch, Sequence, KvHeads, Group, HeadDim>(dqkv, out, cosine, sine, -1);
  }

 private:
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void rotate(T const* qkv, T* out, accumulation_t<T> const* cosine, accumulation_t<T> const* sine,
                     accumulation_t<T> sign) {
    constexpr std::size_t half = detail::rotary_shape<HeadDim>::half;
    constexpr std::size_t width = KvHeads * (Group + 2) * HeadDim, grain = 16384 / width == 0 ? 1 : 16384 / width;
    detail::deal_ranges(Batch * Sequence, grain, [=](std::size_t row, std::size_t last) {
      for (; row < last; ++row) {
        std::size_t const s = row % Sequence;
        for (std::size_t h = 0; h < KvHeads; ++h) {
          std::size_t const at = (row * KvHeads + h) * (Group + 2) * HeadDim, values = at + (Group + 1) * HeadDim;
          for (std::size_t slot = 0; slot <= Group; ++slot)
            detail::rotate_row<HeadDim>(qkv + at + slot * HeadDim, out + at + slot * HeadDim, cosine + s * half,
                                        sine + s * half, sign);
          if (qkv != out) std::memcpy(static_cast<void*>(out + values), qkv + values, HeadDim * sizeof(T));
        }
      }
    });
  }
};

}  // namespace heddle::host
