// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/softmax.cuh>
#include <attention/tile.cuh>

/// The pieces of attention without tensor cores, for a block of 16 x 16 threads: in a tile of scores [16·R, 16·C]
/// thread (y, x) has the rows y + 16r and the columns x + 16c, and in a tile [16·R, Width] of results the same rows,
/// and columns x + 16c. So the 16 lanes of a half of a warp share their rows, and no other thread has them.
namespace heddle::kernels::detail {

inline constexpr int plain_side = 16, plain_threads = plain_side * plain_side;

/// The blocks of a multiprocessor that launch bounds ask for; 0 is for nvcc to choose. Of wide rows it would choose
/// more than there are registers for, and spill some.
template <class T, int HeadDim>
inline constexpr int plain_least_blocks = sizeof(T) == 8 || HeadDim > 128 ? 1 : 0;

struct plain_thread {
  int x, y;
  __device__ plain_thread()
      : x(static_cast<int>(threadIdx.x) % plain_side), y(static_cast<int>(threadIdx.x) / plain_side) {}
};

/// out = a·bᵀ of the thread's rows and columns, which are rows of the tiles a and b.
template <int Width, class A, int R, int C, class Shared>
__device__ void multiply_rows(plain_thread const& me, Shared const& a, Shared const& b, A (&out)[R][C]) {
  constexpr int step = pack_width<A>, stride = tile_stride<A, Width>;
  HEDDLE_UNROLL
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) out[r][c] = 0;
  for (int d = 0; d < Width; d += step) {
    raw_elements<A> left[R];
    HEDDLE_UNROLL
    for (int r = 0; r < R; ++r) left[r] = load_shared<A>(a, (me.y + plain_side * r) * stride + d);
    HEDDLE_UNROLL
    for (int c = 0; c < C; ++c) {
      raw_elements<A> const right = load_shared<A>(b, (me.x + plain_side * c) * stride + d);
      HEDDLE_UNROLL
      for (int r = 0; r < R; ++r) {
        HEDDLE_UNROLL
        for (int j = 0; j < step; ++j) out[r][c] += left[r].value[j] * right.value[j];
      }
    }
  }
}

/// out += p·b, of p[16·R, Columns] and the tile b[Columns, Width].
template <int Width, int Columns, class A, int R, int W, class Shared>
__device__ void add_product(plain_thread const& me, Shared const& p, Shared const& b, A (&out)[R][W]) {
  static_assert(W * plain_side == Width);
  constexpr int step = pack_width<A>, stride = tile_stride<A, Width>, p_stride = tile_stride<A, Columns>;
  for (int k = 0; k < Columns; k += step) {
    raw_elements<A> left[R];
    HEDDLE_UNROLL
    for (int r = 0; r < R; ++r) left[r] = load_shared<A>(p, (me.y + plain_side * r) * p_stride + k);
    HEDDLE_UNROLL
    for (int j = 0; j < step; ++j) {
      HEDDLE_UNROLL
      for (int w = 0; w < W; ++w) {
        A const right = b[(k + j) * stride + me.x + plain_side * w];
        HEDDLE_UNROLL
        for (int r = 0; r < R; ++r) out[r][w] += left[r].value[j] * right;
      }
    }
  }
}

/// Leaves the thread's scores in p[16·R, 16·C].
template <class A, int R, int C, class Shared>
__device__ void leave(plain_thread const& me, A const (&scores)[R][C], Shared const& p) {
  constexpr int stride = tile_stride<A, plain_side * C>;
  HEDDLE_UNROLL
  for (int r = 0; r < R; ++r) {
    HEDDLE_UNROLL
    for (int c = 0; c < C; ++c) p[(me.y + plain_side * r) * stride + me.x + plain_side * c] = scores[r][c];
  }
}

/// Writes the thread's part of rows first.. of `to`, which has `count`, times `factor`.
template <int HeadDim, class A, int R, int W, class T>
__device__ void store_rows(plain_thread const& me, A const (&out)[R][W], A factor, head_rows<T> const& to, int first,
                           int count) {
  HEDDLE_UNROLL
  for (int r = 0; r < R; ++r) {
    int const row = first + me.y + plain_side * r;
    if (row >= count) continue;
    HEDDLE_UNROLL
    for (int w = 0; w < W; ++w) {
      int const column = me.x + plain_side * w;
      if (column < HeadDim) to.data[row * to.stride + column] = T(out[r][w] * factor);
    }
  }
}

}  // namespace heddle::kernels::detail
