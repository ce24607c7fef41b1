// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/grid.hpp>
#include <rotary/rotary.cuh>
#include <rotary/table.cuh>

namespace heddle::cuda {

/// `host::rotary_positions` on a device. The table is in the type that is computed with.
struct rotary_positions {
  template <class T>
  using angle = kernels::accumulator_t<T>;

  /// positions[Sequence] = first, first + 1, …
  template <std::size_t Sequence>
  static void count_up(std::int64_t first, std::int64_t* positions) {
    constexpr int threads = detail::row_threads<std::int64_t>(Sequence);
    if constexpr (Sequence != 0)
      detail::run<kernels::count_up<threads>, threads>(kernels::thread_grid<threads>(Sequence), first,
                                                       writes(positions, Sequence), Sequence);
  }
  /// cosine and sine [Sequence, HeadDim/2] of the angles of `positions` [Sequence]
  template <std::size_t Sequence, std::size_t HeadDim, class A>
  static void rotary_table(std::int64_t const* positions, double theta, A* cosine, A* sine) {
    constexpr std::size_t angles = Sequence * (HeadDim / 2);
    if constexpr (angles != 0)
      detail::run<kernels::rotary_table<detail::plain_t<A>, detail::int_of(HeadDim), detail::threads>>(
          kernels::thread_grid<detail::threads>(angles), reads(positions, Sequence), theta, Sequence,
          writes(cosine, angles), writes(sine, angles));
  }
  /// Rotates queries and keys of qkv [Batch, Sequence, KvHeads, Group + 2, HeadDim] to `out`, which may be qkv itself
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void rotary(T const* qkv, T* out, angle<T> const* cosine, angle<T> const* sine) {
    rotate<Batch, Sequence, KvHeads, Group, HeadDim>(qkv, out, cosine, sine, 1);
  }
  /// Turns dqkv back, likewise
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void rotary_backward(T const* dqkv, T* out, angle<T> const* cosine, angle<T> const* sine) {
    rotate<Batch, Sequence, KvHeads, Group, HeadDim>(dqkv, out, cosine, sine, -1);
  }

 private:
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void rotate(T const* qkv, T* out, angle<T> const* cosine, angle<T> const* sine, angle<T> sign) {
    constexpr std::size_t width = KvHeads * (Group + 2) * HeadDim, all = Batch * Sequence * width;
    constexpr std::size_t angles = Sequence * (HeadDim / 2);
    constexpr int threads = detail::row_threads<T>(width / 2);
    if constexpr (all != 0)
      detail::run<kernels::rotary<detail::plain_t<T>, detail::int_of(HeadDim), threads>, threads>(
          kernels::row_grid(Batch * Sequence), reads(qkv, all), writes(out, all), reads(cosine, angles),
          reads(sine, angles), sign, Sequence, KvHeads, Group);
  }
};

}  // namespace heddle::cuda
