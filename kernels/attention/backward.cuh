// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/plain.cuh>

/// The gradients of attention without tensor cores, from qkv and what forward wrote: FlashAttention-2's backward (Dao,
/// arXiv 2307.08691, algorithm 2), whose probabilities are computed again from log_sum_exp. It is two kernels, one by
/// queries and one by keys, each of which computes the scores: one kernel would have to add up a gradient between
/// blocks, in an order that varies. `attention_inner` comes before both.
namespace heddle::kernels {

namespace detail {
constexpr int lanes_for(int packs) {
  int lanes = 1;
  while (lanes < warp_lanes && lanes < packs) lanes *= 2;
  return lanes;
}
}  // namespace detail

/// Shared memory of `attention_query_gradient`, and of `attention_key_gradient`, bytes.
template <class T, int HeadDim, int Rows, int Columns>
constexpr int attention_query_gradient_shared() {
  using A = accumulator_t<T>;
  constexpr int stride = detail::tile_stride<A, detail::tile_width<HeadDim>>;
  return (2 * (Rows + Columns) * stride + Rows * detail::tile_stride<A, Columns>)*static_cast<int>(sizeof(A));
}
template <class T, int HeadDim, int Rows, int Columns>
constexpr int attention_key_gradient_shared() {
  using A = accumulator_t<T>;
  return attention_query_gradient_shared<T, HeadDim, Rows, Columns>() +
         (Rows * detail::tile_stride<A, Columns> + 2 * Columns) * static_cast<int>(sizeof(A));
}

/// inner[batch, kv_heads, group, queries] = Σ dy·y, which is Σ of a row's probabilities times their gradients (section
/// 2.3.2 of the paper): rows of y and dy lie alike. `Lanes` = `inner_lanes` threads a row. Grid:
/// `attention_inner_grid`.
template <class T, int HeadDim>
inline constexpr int inner_lanes = detail::lanes_for((HeadDim + pack_width<T> - 1) / pack_width<T>);
template <class T, int HeadDim, int Threads>
__global__ void __launch_bounds__(Threads)
    attention_inner(attention_shape shape, long long rows, attention_rows<T const> y, attention_rows<T const> dy,
                    accumulator_t<T>* inner) {
  using A = accumulator_t<T>;
  constexpr int lanes = inner_lanes<T, HeadDim>, step = pack_width<T>;
  int const thread = static_cast<int>(threadIdx.x);
  long long const row = static_cast<long long>(blockIdx.x) * (Threads / lanes) + thread / lanes;
  A sum = 0;
  if (row < rows) {
    int const query = static_cast<int>(row % shape.queries);
    long long const head = row / shape.queries, rest = head / shape.group;
    int const group = static_cast<int>(head % shape.group), kv_head = static_cast<int>(rest % shape.kv_heads);
    int const batch = static_cast<int>(rest / shape.kv_heads);
    auto const a = rows_of_head<HeadDim>(y, batch, kv_head, group),
               b = rows_of_head<HeadDim>(dy, batch, kv_head, group);
    for (int i = thread % lanes * step; i < HeadDim; i += lanes * step) {
      pack<T> const left = load_pack<T>(a.data + query * a.stride + i, HeadDim - i, a.whole);
      pack<T> const right = load_pack<T>(b.data + query * b.stride + i, HeadDim - i, b.whole);
      HEDDLE_UNROLL
      for (int j = 0; j < step; ++j) sum += left[j] * right[j];
    }
  }
  sum = detail::lanes_reduce<lanes>(sum, sum_of{});
  if (row < rows && thread % lanes == 0) inner[row] = sum;
}

/// dq, of a block of `Rows` queries over the keys that they see. Grid: `attention_grid`.
template <class T, int HeadDim, int Rows, int Columns, int Threads>
__global__ void __launch_bounds__(Threads, detail::plain_least_blocks<T, HeadDim>)
    attention_query_gradient(attention_shape shape, attention_rows<T const> q, attention_rows<T const> k,
                             attention_rows<T const> v, attention_rows<T const> dy, accumulator_t<T> const* log_sum_exp,
                             accumulator_t<T> const* inner, attention_rows<T> dq) {
  using A = accumulator_t<T>;
  static_assert(detail::attention_block<HeadDim, Rows, Columns, Threads, detail::plain_threads>::value);
  constexpr int width = detail::tile_width<HeadDim>, stride = detail::tile_stride<A, width>;
  constexpr int r_count = Rows / detail::plain_side, c_count = Columns / detail::plain_side;
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const queries = memory.take<A>(Rows * stride);
  auto const gradients = memory.take<A>(Rows * stride);
  auto const keys = memory.take<A>(Columns * stride);
  auto const values = memory.take<A>(Columns * stride);
  auto const changes = memory.take<A>(Rows * detail::tile_stride<A, Columns>);
  detail::plain_thread const me;
  attention_head const at = attention_head::of_queries(shape);
  int const first_query = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Rows;
  int const last_query = first_query + Rows < shape.queries ? first_query + Rows - 1 : shape.queries - 1;
  int const limit = keys_seen(shape, last_query);
  A const scale = detail::score_scale<A>(1, HeadDim), log2_of_e = A(detail::log2_of_e);
  auto const k_head = rows_of_head<HeadDim>(k, at.batch, at.head, 0),
             v_head = rows_of_head<HeadDim>(v, at.batch, at.head, 0);
  detail::load_tile<A, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(q, at.batch, at.head, at.group),
                                                      first_query, shape.queries, queries);
  detail::load_tile<A, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(dy, at.batch, at.head, at.group),
                                                      first_query, shape.queries, gradients);
  A log_sum[r_count], row_inner[r_count];
  HEDDLE_UNROLL
  for (int r = 0; r < r_count; ++r) {
    int const query = first_query + me.y + detail::plain_side * r;
    log_sum[r] = detail::backward_log_sum(log_sum_exp + at.statistics(shape), query, shape.queries);
    row_inner[r] = query < shape.queries ? inner[at.statistics(shape) + query] : A(0);
  }
  A out[r_count][width / detail::plain_side] = {};
  for (int first = 0; first < limit; first += Columns) {
    detail::load_tile<A, HeadDim, width, Columns, Threads>(k_head, first, limit, keys);
    detail::load_tile<A, HeadDim, width, Columns, Threads>(v_head, first, limit, values);
    __syncthreads();
    A p[r_count][c_count], change[r_count][c_count];
    detail::multiply_rows<width>(me, queries, keys, p);
    detail::multiply_rows<width>(me, gradients, values, change);
    HEDDLE_UNROLL
    for (int r = 0; r < r_count; ++r) {
      HEDDLE_UNROLL
      for (int c = 0; c < c_count; ++c) {
        bool const seen =
            sees(shape, first_query + me.y + detail::plain_side * r, first + me.x + detail::plain_side * c);
        A const probability = math::exp2((p[r][c] * scale - log_sum[r]) * log2_of_e);
        change[r][c] = seen ? probability * (change[r][c] - row_inner[r]) : A(0);
      }
    }
    detail::leave(me, change, changes);
    __syncwarp();
    detail::add_product<width, Columns>(me, changes, keys, out);
    __syncthreads();
  }
  detail::store_rows<HeadDim>(me, out, scale, rows_of_head<HeadDim>(dq, at.batch, at.head, at.group), first_query,
                              shape.queries);
}

/// dk and dv, of a block of `Rows` keys of a key-value head over the queries that see them: those of its query heads
/// one after the other, each in the order of the sequence. Grid: `attention_grid` with group 1 and the number of keys.
template <class T, int HeadDim, int Rows, int Columns, int Threads>
__global__ void __launch_bounds__(Threads, detail::plain_least_blocks<T, HeadDim>)
    attention_key_gradient(attention_shape shape, attention_rows<T const> q, attention_rows<T const> k,
                           attention_rows<T const> v, attention_rows<T const> dy, accumulator_t<T> const* log_sum_exp,
                           accumulator_t<T> const* inner, attention_rows<T> dk, attention_rows<T> dv) {
  using A = accumulator_t<T>;
  static_assert(detail::attention_block<HeadDim, Rows, Columns, Threads, detail::plain_threads>::value);
  constexpr int width = detail::tile_width<HeadDim>, stride = detail::tile_stride<A, width>;
  constexpr int r_count = Rows / detail::plain_side, c_count = Columns / detail::plain_side;
  HEDDLE_DYNAMIC_SHARED(memory);
  auto const keys = memory.take<A>(Rows * stride);
  auto const values = memory.take<A>(Rows * stride);
  auto const queries = memory.take<A>(Columns * stride);
  auto const gradients = memory.take<A>(Columns * stride);
  auto const probabilities = memory.take<A>(Rows * detail::tile_stride<A, Columns>);
  auto const changes = memory.take<A>(Rows * detail::tile_stride<A, Columns>);
  auto const log_sums = memory.take<A>(Columns);
  auto const inners = memory.take<A>(Columns);
  detail::plain_thread const me;
  int const thread = static_cast<int>(threadIdx.x);
  attention_head at = attention_head::of_keys(shape);
  int const first_key = static_cast<int>(blockIdx.y) * Rows;
  int const first_seeing = first_key > shape.shift ? (first_key - shape.shift) / Columns * Columns : 0;
  A const scale = detail::score_scale<A>(1, HeadDim), log2_of_e = A(detail::log2_of_e);
  detail::load_tile<A, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(k, at.batch, at.head, 0), first_key,
                                                      shape.keys, keys);
  detail::load_tile<A, HeadDim, width, Rows, Threads>(rows_of_head<HeadDim>(v, at.batch, at.head, 0), first_key,
                                                      shape.keys, values);
  A key_out[r_count][width / detail::plain_side] = {}, value_out[r_count][width / detail::plain_side] = {};
  for (at.group = 0; at.group != shape.group; ++at.group) {
    auto const q_head = rows_of_head<HeadDim>(q, at.batch, at.head, at.group),
               dy_head = rows_of_head<HeadDim>(dy, at.batch, at.head, at.group);
    long long const statistics = at.statistics(shape);
    for (int first = first_seeing; first < shape.queries; first += Columns) {
      detail::load_tile<A, HeadDim, width, Columns, Threads>(q_head, first, shape.queries, queries);
      detail::load_tile<A, HeadDim, width, Columns, Threads>(dy_head, first, shape.queries, gradients);
      if (thread < Columns) {
        int const query = first + thread;
        log_sums[thread] = detail::backward_log_sum(log_sum_exp + statistics, query, shape.queries);
        inners[thread] = query < shape.queries ? inner[statistics + query] : A(0);
      }
      __syncthreads();
      A p[r_count][c_count], change[r_count][c_count];
      detail::multiply_rows<width>(me, keys, queries, p);
      detail::multiply_rows<width>(me, values, gradients, change);
      HEDDLE_UNROLL
      for (int c = 0; c < c_count; ++c) {
        int const column = me.x + detail::plain_side * c;
        A const log_sum = log_sums[column], row_inner = inners[column];
        HEDDLE_UNROLL
        for (int r = 0; r < r_count; ++r) {
          bool const seen = sees(shape, first + column, first_key + me.y + detail::plain_side * r);
          A const probability = math::exp2((p[r][c] * scale - log_sum) * log2_of_e);
          change[r][c] = seen ? probability * (change[r][c] - row_inner) : A(0);
          p[r][c] = seen ? probability : A(0);
        }
      }
      detail::leave(me, p, probabilities);
      detail::leave(me, change, changes);
      __syncwarp();
      detail::add_product<width, Columns>(me, probabilities, gradients, value_out);
      detail::add_product<width, Columns>(me, changes, queries, key_out);
      __syncthreads();
    }
  }
  detail::store_rows<HeadDim>(me, key_out, scale, rows_of_head<HeadDim>(dk, at.batch, at.head, 0), first_key,
                              shape.keys);
  detail::store_rows<HeadDim>(me, value_out, A(1), rows_of_head<HeadDim>(dv, at.batch, at.head, 0), first_key,
                              shape.keys);
}

}  // namespace heddle::kernels
