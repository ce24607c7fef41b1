// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/backward.cuh>
#include <attention/mma_tile.cuh>

/// The two kernels of attention's backward on tensor cores, of bfloat16 and half: what attention/backward.cuh says. The
/// probabilities and the gradients of the scores are rounded to T for their products.
namespace heddle::kernels {

/// How many warps share the columns of the results of 16 keys: one warp has registers for 128 columns of both.
template <int HeadDim>
inline constexpr int key_gradient_splits = HeadDim <= 128 ? 1 : 2;

/// Shared memory of `attention_query_gradient_mma`, and of `attention_key_gradient_mma`, bytes.
template <class T, int HeadDim, int Rows, int Columns>
constexpr int attention_query_gradient_mma_shared() {
  return 2 * (Rows + Columns) * detail::tile_stride<T, detail::tile_width<HeadDim>> * static_cast<int>(sizeof(T));
}
template <class T, int HeadDim, int Rows, int Columns>
constexpr int attention_key_gradient_mma_shared() {
  constexpr int width = detail::tile_width<HeadDim, 16 * key_gradient_splits<HeadDim>>;
  return 2 * (Rows + Columns) * detail::tile_stride<T, width> * static_cast<int>(sizeof(T)) +
         2 * Columns * static_cast<int>(sizeof(float));
}

/// dq. A warp has 16 queries. Grid: `attention_grid`.
template <class T, int HeadDim, int Rows, int Columns, int Threads>
__global__ void __launch_bounds__(Threads)
    attention_query_gradient_mma(attention_shape shape, attention_rows<T const> q, attention_rows<T const> k,
                                 attention_rows<T const> v, attention_rows<T const> dy, float const* log_sum_exp,
                                 float const* inner, attention_rows<T> dq) {
  static_assert(has_mma<T> && detail::attention_block<HeadDim, Rows, Columns, Threads, Rows * 2>::value);
  constexpr int width = detail::tile_width<HeadDim>, stride = detail::tile_stride<T, width>, tiles = Columns / 8;
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const queries = memory.take<T>(Rows * stride);
  auto const gradients = memory.take<T>(Rows * stride);
  auto const keys = memory.take<T>(Columns * stride);
  auto const values = memory.take<T>(Columns * stride);
  using left = detail::left_in_memory<T, width, decltype(queries)>;
  detail::mma_thread const me;
  attention_head const at = attention_head::of_queries(shape);
  int const first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Rows;
  int const last_query = first_query + Rows < shape.queries ? first_query + Rows - 1 : shape.queries - 1;
  int const limit = keys_seen(shape, last_query), own = me.warp * 16, own_query = first_query + own;
  float const scale = detail::score_scale<float>(1, HeadDim), log2_of_e = static_cast<float>(detail::log2_of_e);
  auto const k_head = rows_of_head<HeadDim>(k, at.batch, at.head, 0),
             v_head = rows_of_head<HeadDim>(v, at.batch, at.head, 0);
  detail::load_tile<T, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(q, at.batch, at.head, at.group),
                                                      first_query, shape.queries, queries);
  detail::load_tile<T, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(dy, at.batch, at.head, at.group),
                                                      first_query, shape.queries, gradients);
  float log_sum[2], row_inner[2];
  HEDDLE_UNROLL
  for (int r = 0; r < 2; ++r) {
    int const query = own_query + me.row + r * 8;
    log_sum[r] = detail::backward_log_sum(log_sum_exp + at.statistics(shape), query, shape.queries);
    row_inner[r] = query < shape.queries ? inner[at.statistics(shape) + query] : 0.0F;
  }
  float out[width / 8][4] = {};
  for (int first = 0; first < limit; first += Columns) {
    detail::load_tile<T, HeadDim, width, Columns, Threads>(k_head, first, limit, keys);
    detail::load_tile<T, HeadDim, width, Columns, Threads>(v_head, first, limit, values);
    __syncthreads();
    if (first < keys_seen(shape, own_query + 15)) {
      float p[tiles][4] = {}, change[tiles][4] = {};
      detail::mma_rows<T, width>(p, me, left{me, queries, own}, keys);
      detail::mma_rows<T, width>(change, me, left{me, gradients, own}, values);
      HEDDLE_UNROLL
      for (int n = 0; n < tiles; ++n) {
        HEDDLE_UNROLL
        for (int i = 0; i < 4; ++i)
          change[n][i] = math::exp2((p[n][i] * scale - log_sum[i / 2]) * log2_of_e) * (change[n][i] - row_inner[i / 2]);
      }
      if (first + Columns > keys_seen(shape, own_query)) {
        HEDDLE_UNROLL
        for (int n = 0; n < tiles; ++n) {
          HEDDLE_UNROLL
          for (int i = 0; i < 4; ++i)
            if (!sees(shape, own_query + me.row + i / 2 * 8, first + n * 8 + me.column + i % 2)) change[n][i] = 0;
        }
      }
      detail::mma_columns<T, width>(out, me, change, keys, 0);
    }
    __syncthreads();
  }
  __syncthreads();
  detail::leave_fragments<T, width>(me, out, scale, scale, queries, own, 0);
  __syncthreads();
  detail::store_tile<HeadDim, width, Rows, Threads>(queries, rows_of_head<HeadDim>(dq, at.batch, at.head, at.group),
                                                    first_query, shape.queries);
}

/// dk and dv. A warp has 16 keys, and a share of the columns (`key_gradient_splits`); it computes the scores
/// transposed, so that they are the left operand of both products. Grid: `attention_grid` with group 1 and the number
/// of keys.
template <class T, int HeadDim, int Rows, int Columns, int Threads>
__global__ void __launch_bounds__(Threads)
    attention_key_gradient_mma(attention_shape shape, attention_rows<T const> q, attention_rows<T const> k,
                               attention_rows<T const> v, attention_rows<T const> dy, float const* log_sum_exp,
                               float const* inner, attention_rows<T> dk, attention_rows<T> dv) {
  constexpr int splits = key_gradient_splits<HeadDim>, width = detail::tile_width<HeadDim, 16 * splits>;
  constexpr int stride = detail::tile_stride<T, width>, tiles = Columns / 8, share = width / splits;
  static_assert(has_mma<T> && detail::attention_block<HeadDim, Rows, Columns, Threads, Rows * 2 * splits>::value);
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const keys = memory.take<T>(Rows * stride);
  auto const values = memory.take<T>(Rows * stride);
  auto const queries = memory.take<T>(Columns * stride);
  auto const gradients = memory.take<T>(Columns * stride);
  auto const log_sums = memory.take<float>(Columns);
  auto const inners = memory.take<float>(Columns);
  using left = detail::left_in_memory<T, width, decltype(keys)>;
  detail::mma_thread const me;
  int const thread = static_cast<int>(threadIdx.x);
  attention_head at = attention_head::of_keys(shape);
  int const first_key = static_cast<int>(blockIdx.y) * Rows, own = me.warp / splits * 16;
  int const own_columns = me.warp % splits * share;
  int const first_seeing = first_key > shape.shift ? (first_key - shape.shift) / Columns * Columns : 0;
  float const scale = detail::score_scale<float>(1, HeadDim), log2_of_e = static_cast<float>(detail::log2_of_e);
  detail::load_tile<T, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(k, at.batch, at.head, 0), first_key,
                                                      shape.keys, keys);
  detail::load_tile<T, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(v, at.batch, at.head, 0), first_key,
                                                      shape.keys, values);
  float key_out[share / 8][4] = {}, value_out[share / 8][4] = {};
  for (at.group = 0; at.group != shape.group; ++at.group) {
    auto const q_head = rows_of_head<HeadDim>(q, at.batch, at.head, at.group),
               dy_head = rows_of_head<HeadDim>(dy, at.batch, at.head, at.group);
    long long const statistics = at.statistics(shape);
    for (int first = first_seeing; first < shape.queries; first += Columns) {
      detail::load_tile<T, HeadDim, width, Columns, Threads>(q_head, first, shape.queries, queries);
      detail::load_tile<T, HeadDim, width, Columns, Threads>(dy_head, first, shape.queries, gradients);
      if (thread < Columns) {
        int const query = first + thread;
        log_sums[thread] = detail::backward_log_sum(log_sum_exp + statistics, query, shape.queries);
        inners[thread] = query < shape.queries ? inner[statistics + query] : 0.0F;
      }
      __syncthreads();
      // The first tiles may be of no use to the last warps.
      if (first + Columns - 1 + shape.shift >= first_key + own) {
        float p[tiles][4] = {}, change[tiles][4] = {};
        detail::mma_rows<T, width>(p, me, left{me, keys, own}, queries);
        detail::mma_rows<T, width>(change, me, left{me, values, own}, gradients);
        HEDDLE_UNROLL
        for (int n = 0; n < tiles; ++n) {
          HEDDLE_UNROLL
          for (int i = 0; i < 4; ++i) {
            int const column = n * 8 + me.column + i % 2;
            p[n][i] = math::exp2((p[n][i] * scale - log_sums[column]) * log2_of_e);
            change[n][i] = p[n][i] * (change[n][i] - inners[column]);
          }
        }
        if (first + shape.shift < first_key + own + 15) {
          HEDDLE_UNROLL
          for (int n = 0; n < tiles; ++n) {
            HEDDLE_UNROLL
            for (int i = 0; i < 4; ++i)
              if (!sees(shape, first + n * 8 + me.column + i % 2, first_key + own + me.row + i / 2 * 8))
                p[n][i] = change[n][i] = 0;
          }
        }
        detail::mma_columns<T, width>(value_out, me, p, gradients, own_columns);
        detail::mma_columns<T, width>(key_out, me, change, queries, own_columns);
      }
      __syncthreads();
    }
  }
  __syncthreads();
  detail::leave_fragments<T, width>(me, key_out, scale, scale, keys, own, own_columns);
  detail::leave_fragments<T, width>(me, value_out, 1.0F, 1.0F, values, own, own_columns);
  __syncthreads();
  detail::store_tile<HeadDim, width, Rows, Threads>(keys, rows_of_head<HeadDim>(dk, at.batch, at.head, 0), first_key,
                                                    shape.keys);
  detail::store_tile<HeadDim, width, Rows, Threads>(values, rows_of_head<HeadDim>(dv, at.batch, at.head, 0), first_key,
                                                    shape.keys);
}

}  // namespace heddle::kernels
