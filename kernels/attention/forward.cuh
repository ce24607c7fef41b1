// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/plain.cuh>

namespace heddle::kernels {

/// Shared memory of `attention_forward`, bytes.
template <class T, int HeadDim, int Rows, int Columns>
constexpr int attention_forward_shared() {
  using A = accumulator_t<T>;
  constexpr int stride = detail::tile_stride<A, detail::tile_width<HeadDim>>;
  return ((Rows + 2 * Columns) * stride + Rows * detail::tile_stride<A, Columns>)*static_cast<int>(sizeof(A));
}

/// y = softmax(q·kᵀ/√HeadDim)·v and log_sum_exp, natural, of the keys that each query sees: `host::attention`, and with
/// a shift `host::attention_core`. FlashAttention-2 (Dao, arXiv 2307.08691, algorithm 1): a block has `Rows` queries of
/// a head and takes the keys in tiles of `Columns`, with an on-line softmax, so memory is linear in the sequence. A
/// query that sees nothing has y = 0 and log_sum_exp = -infinity. NaN and infinity among what a query sees come out as
/// NaN; so may those of a value that it does not see and that is in one tile with what it sees: 0 times it. The order
/// of sums depends on `Columns`, and on nothing that a split of batch or heads changes.
///
/// For all types; `attention_forward_mma` uses tensor cores. Grid: `attention_grid`; shared memory:
/// `attention_forward_shared`.
template <class T, int HeadDim, int Rows, int Columns, int Threads>
__global__ void __launch_bounds__(Threads, detail::plain_least_blocks<T, HeadDim>)
    attention_forward(attention_shape shape, attention_rows<T const> q, attention_rows<T const> k,
                      attention_rows<T const> v, attention_rows<T> y, accumulator_t<T>* log_sum_exp) {
  using A = accumulator_t<T>;
  static_assert(detail::attention_block<HeadDim, Rows, Columns, Threads, detail::plain_threads>::value);
  constexpr int width = detail::tile_width<HeadDim>, stride = detail::tile_stride<A, width>;
  constexpr int r_count = Rows / detail::plain_side, c_count = Columns / detail::plain_side;
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const queries = memory.take<A>(Rows * stride);
  auto const keys = memory.take<A>(Columns * stride);
  auto const values = memory.take<A>(Columns * stride);
  auto const scores = memory.take<A>(Rows * detail::tile_stride<A, Columns>);
  detail::plain_thread const me;
  attention_head const at = attention_head::of_queries(shape);
  // Later queries see more keys: their blocks begin first.
  int const first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Rows;
  int const last_query = first_query + Rows < shape.queries ? first_query + Rows - 1 : shape.queries - 1;
  int const limit = keys_seen(shape, last_query);
  A const scale = detail::score_scale<A>(1, HeadDim), scale_log2 = detail::score_scale<A>(detail::log2_of_e, HeadDim);
  auto const k_head = rows_of_head<HeadDim>(k, at.batch, at.head, 0),
             v_head = rows_of_head<HeadDim>(v, at.batch, at.head, 0);
  detail::load_tile<A, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(q, at.batch, at.head, at.group),
                                                      first_query, shape.queries, queries);
  A out[r_count][width / detail::plain_side] = {};
  detail::running_softmax<A> row[r_count];
  for (int first = 0; first < limit; first += Columns) {
    detail::load_tile<A, HeadDim, width, Columns, Threads>(k_head, first, limit, keys);
    detail::load_tile<A, HeadDim, width, Columns, Threads>(v_head, first, limit, values);
    __syncthreads();
    A p[r_count][c_count];
    detail::multiply_rows<width>(me, queries, keys, p);
    HEDDLE_UNROLL
    for (int r = 0; r < r_count; ++r) {
      int const query = first_query + me.y + detail::plain_side * r;
      A highest = -math::infinity<A>;
      HEDDLE_UNROLL
      for (int c = 0; c < c_count; ++c) {
        if (!sees(shape, query, first + me.x + detail::plain_side * c)) p[r][c] = -math::infinity<A>;
        highest = detail::larger_of{}(p[r][c], highest);
      }
      highest = detail::lanes_reduce<detail::plain_side>(highest, detail::larger_of{});
      A const factor = row[r].raise(highest, scale_log2);
      HEDDLE_UNROLL
      for (int c = 0; c < c_count; ++c) p[r][c] = row[r].take(p[r][c], scale_log2);
      HEDDLE_UNROLL
      for (A& one : out[r]) one *= factor;
    }
    detail::leave(me, p, scores);
    __syncwarp();
    detail::add_product<width, Columns>(me, scores, values, out);
    __syncthreads();
  }
  A* const statistics = log_sum_exp + at.statistics(shape);
  HEDDLE_UNROLL
  for (int r = 0; r < r_count; ++r) {
    int const query = first_query + me.y + detail::plain_side * r;
    A const sum = detail::lanes_reduce<detail::plain_side>(row[r].sum, sum_of{});
    if (me.x == 0 && query < shape.queries) statistics[query] = detail::log_sum_of(row[r].maximum, sum, scale);
    HEDDLE_UNROLL
    for (A& one : out[r]) one *= detail::inverse_of(sum);
  }
  detail::store_rows<HeadDim>(me, out, A(1), rows_of_head<HeadDim>(y, at.batch, at.head, at.group), first_query,
                              shape.queries);
}

}  // namespace heddle::kernels
