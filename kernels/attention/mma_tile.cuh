// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/softmax.cuh>
#include <attention/tile.cuh>
#include <support/mma.cuh>

/// The pieces of attention on tensor cores. A warp has 16 rows of a tile of scores, as fragments [Tiles][4] of 16 x 8
/// (`support/mma.cuh`): lane (g, t) has of tile n the columns 8n + 2t and 8n + 2t + 1, of row g in elements 0 and 1, of
/// row g + 8 in 2 and 3. Operands lie in shared memory as T, `tile_stride` apart; sums are in float.
namespace heddle::kernels::detail {

struct mma_thread {
  int warp, lane, row, column;  ///< row g; column 2t
  __device__ mma_thread()
      : warp(static_cast<int>(threadIdx.x) / warp_lanes),
        lane(static_cast<int>(threadIdx.x) % warp_lanes),
        row(lane / 4),
        column(lane % 4 * 2) {}
};

/// The 16 x 16 elements of `from` from (row, column) on, as the left operand.
template <class T, int Width, class Shared>
__device__ void load_left(unsigned (&out)[4], mma_thread const& me, Shared const& from, int row, int column) {
  load_matrices<T>(out, from, (row + me.lane % 16) * tile_stride<T, Width> + column + me.lane / 16 * 8);
}

/// scores += a·bᵀ, the left operand by `left(fragment, step)` for each 16 of the Width columns, b[8·Tiles, Width] in
/// shared memory.
template <class T, int Width, int Tiles, class Shared, class Left>
__device__ void mma_rows(float (&scores)[Tiles][4], mma_thread const& me, Left const& left, Shared const& b) {
  static_assert(Tiles % 2 == 0);
  HEDDLE_UNROLL
  for (int step = 0; step < Width / 16; ++step) {
    unsigned a[4];
    left(a, step);
    HEDDLE_UNROLL
    for (int n = 0; n < Tiles; n += 2) {
      unsigned two[4];
      load_matrices<T>(
          two, b, (n * 8 + me.lane % 8 + me.lane / 16 * 8) * tile_stride<T, Width> + step * 16 + me.lane / 8 % 2 * 8);
      mma<T>(scores[n], a, two[0], two[1]);
      mma<T>(scores[n + 1], a, two[2], two[3]);
    }
  }
}

/// A left operand that is in shared memory from `row` on.
template <class T, int Width, class Shared>
struct left_in_memory {
  mma_thread const& me;
  Shared const& from;
  int row;
  __device__ void operator()(unsigned (&a)[4], int step) const { load_left<T, Width>(a, me, from, row, step * 16); }
};

/// out += p·b, where p are scores, rounded to T, and b[8·Tiles, Width] is in shared memory, of which `column` and the
/// 8·Out columns from it on are used.
template <class T, int Width, int Tiles, int Out, class Shared>
__device__ void mma_columns(float (&out)[Out][4], mma_thread const& me, float const (&p)[Tiles][4], Shared const& b,
                            int column) {
  static_assert(Tiles % 2 == 0 && Out % 2 == 0);
  HEDDLE_UNROLL
  for (int k = 0; k < Tiles; k += 2) {
    // The fragments of two tiles of results are that of a left operand.
    unsigned const a[4] = {fragment_of<T>(p[k][0], p[k][1]), fragment_of<T>(p[k][2], p[k][3]),
                           fragment_of<T>(p[k + 1][0], p[k + 1][1]), fragment_of<T>(p[k + 1][2], p[k + 1][3])};
    HEDDLE_UNROLL
    for (int n = 0; n < Out; n += 2) {
      unsigned two[4];
      load_transposed<T>(two, b, (k * 8 + me.lane % 16) * tile_stride<T, Width> + column + n * 8 + me.lane / 16 * 8);
      mma<T>(out[n], a, two[0], two[1]);
      mma<T>(out[n + 1], a, two[2], two[3]);
    }
  }
}

/// Leaves the warp's results times `factor` of each of the lane's two rows in `to`, from (row, column) on.
template <class T, int Width, int Out, class Shared>
__device__ void leave_fragments(mma_thread const& me, float const (&out)[Out][4], float upper, float lower,
                                Shared const& to, int row, int column) {
  HEDDLE_UNROLL
  for (int n = 0; n < Out; ++n) {
    HEDDLE_UNROLL
    for (int i = 0; i < 4; ++i)
      to[(row + me.row + i / 2 * 8) * tile_stride<T, Width> + column + n * 8 + me.column + i % 2] =
          T(out[n][i] * (i < 2 ? upper : lower));
  }
}

}  // namespace heddle::kernels::detail
