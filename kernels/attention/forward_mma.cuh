// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/mma_tile.cuh>

namespace heddle::kernels {

/// Shared memory of `attention_forward_mma`, bytes.
template <class T, int HeadDim, int Rows, int Columns>
constexpr int attention_forward_mma_shared() {
  return (Rows + 2 * Columns) * detail::tile_stride<T, detail::tile_width<HeadDim>> * static_cast<int>(sizeof(T));
}

/// `attention_forward` on tensor cores, of bfloat16 and half: a warp for 16 queries. Products are of T, sums and the
/// softmax in float; probabilities are rounded to T for their product with the values. Grid: `attention_grid`; shared
/// memory: `attention_forward_mma_shared`.
template <class T, int HeadDim, int Rows, int Columns, int Threads>
__global__ void __launch_bounds__(Threads)
    attention_forward_mma(attention_shape shape, attention_rows<T const> q, attention_rows<T const> k,
                          attention_rows<T const> v, attention_rows<T> y, float* log_sum_exp) {
  static_assert(has_mma<T> && detail::attention_block<HeadDim, Rows, Columns, Threads, Rows * 2>::value);
  constexpr int width = detail::tile_width<HeadDim>, stride = detail::tile_stride<T, width>, tiles = Columns / 8;
  // Queries stay in registers, where the results leave room.
  constexpr bool held = width <= 128;
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const queries = memory.take<T>(Rows * stride);
  auto const keys = memory.take<T>(Columns * stride);
  auto const values = memory.take<T>(Columns * stride);
  detail::mma_thread const me;
  attention_head const at = attention_head::of_queries(shape);
  // Later queries see more keys: their blocks begin first.
  int const first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Rows;
  int const last_query = first_query + Rows < shape.queries ? first_query + Rows - 1 : shape.queries - 1;
  int const limit = keys_seen(shape, last_query), own = me.warp * 16, own_query = first_query + own;
  float const scale = detail::score_scale<float>(1, HeadDim),
              scale_log2 = detail::score_scale<float>(detail::log2_of_e, HeadDim);
  auto const k_head = rows_of_head<HeadDim>(k, at.batch, at.head, 0),
             v_head = rows_of_head<HeadDim>(v, at.batch, at.head, 0);
  detail::load_tile<T, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(q, at.batch, at.head, at.group),
                                                      first_query, shape.queries, queries);
  unsigned query[held ? width / 16 : 1][4];
  if constexpr (held) {
    __syncthreads();
    HEDDLE_UNROLL
    for (int step = 0; step < width / 16; ++step) detail::load_left<T, width>(query[step], me, queries, own, step * 16);
  }
  float out[width / 8][4] = {};
  detail::running_softmax<float> row[2];
  for (int first = 0; first < limit; first += Columns) {
    detail::load_tile<T, HeadDim, width, Columns, Threads>(k_head, first, limit, keys);
    detail::load_tile<T, HeadDim, width, Columns, Threads>(v_head, first, limit, values);
    __syncthreads();
    // The last tiles may be of no use to the first warps.
    if (first < keys_seen(shape, own_query + 15)) {
      float p[tiles][4] = {};
      if constexpr (held)
        detail::mma_rows<T, width>(
            p, me,
            [&](unsigned(&a)[4], int step) {
              HEDDLE_UNROLL
              for (int i = 0; i < 4; ++i) a[i] = query[step][i];
            },
            keys);
      else
        detail::mma_rows<T, width>(p, me, detail::left_in_memory<T, width, decltype(queries)>{me, queries, own}, keys);
      if (first + Columns > keys_seen(shape, own_query)) {
        HEDDLE_UNROLL
        for (int n = 0; n < tiles; ++n) {
          HEDDLE_UNROLL
          for (int i = 0; i < 4; ++i)
            if (!sees(shape, own_query + me.row + i / 2 * 8, first + n * 8 + me.column + i % 2))
              p[n][i] = -math::infinity<float>;
        }
      }
      HEDDLE_UNROLL
      for (int r = 0; r < 2; ++r) {
        float highest = -math::infinity<float>;
        HEDDLE_UNROLL
        for (int n = 0; n < tiles; ++n)
          highest = detail::larger_of{}(p[n][2 * r + 1], detail::larger_of{}(p[n][2 * r], highest));
        highest = detail::lanes_reduce<4>(highest, detail::larger_of{});
        float const factor = row[r].raise(highest, scale_log2);
        HEDDLE_UNROLL
        for (int n = 0; n < tiles; ++n) {
          p[n][2 * r] = row[r].take(p[n][2 * r], scale_log2);
          p[n][2 * r + 1] = row[r].take(p[n][2 * r + 1], scale_log2);
        }
        HEDDLE_UNROLL
        for (int n = 0; n < width / 8; ++n) {
          out[n][2 * r] *= factor;
          out[n][2 * r + 1] *= factor;
        }
      }
      detail::mma_columns<T, width>(out, me, p, values, 0);
    }
    __syncthreads();
  }
  float inverse[2];
  HEDDLE_UNROLL
  for (int r = 0; r < 2; ++r) {
    int const query_at = own_query + me.row + r * 8;
    float const sum = detail::lanes_reduce<4>(row[r].sum, sum_of{});
    inverse[r] = detail::inverse_of(sum);
    if (me.column == 0 && query_at < shape.queries)
      log_sum_exp[at.statistics(shape) + query_at] = detail::log_sum_of(row[r].maximum, sum, scale);
  }
  // Through the queries' place, which has been read, so that whole rows are written.
  __syncthreads();
  detail::leave_fragments<T, width>(me, out, inverse[0], inverse[1], queries, own, 0);
  __syncthreads();
  detail::store_tile<HeadDim, width, Rows, Threads>(queries, rows_of_head<HeadDim>(y, at.batch, at.head, at.group),
                                                    first_query, shape.queries);
}

}  // namespace heddle::kernels
