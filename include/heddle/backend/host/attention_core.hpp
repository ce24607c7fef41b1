// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include <heddle/backend/host/attention_tile.hpp>

/// One head of causal attention over packed keys and values, lengths at run time: instantiated once per element type
/// and head size. Forward is FlashAttention-2's (Dao, arXiv 2307.08691, algorithm 1; on-line softmax of Milakov and
/// Gimelshein, arXiv 1805.02867), backward its algorithm 2 with the queries in the outer loop.
///
/// A tile of scores is kept transposed, [keys, queries]: the vectors run along the queries, so maxima and sums need no
/// reduction across lanes, and keys and values are read as they lie. Each head is computed in one fixed order that
/// depends on its own lengths alone: splitting batch or heads over ranks changes no bit.
namespace heddle::host::detail {

inline constexpr std::size_t tile_queries = 32;
inline constexpr std::size_t tile_keys = 64;

/// Where the rows of a [rows, HeadDim] operand lie: `stride` elements apart.
template <class T>
struct strided_rows {
  T* data;
  std::size_t stride;
  [[nodiscard]] T* row(std::size_t i) const { return data + i * stride; }
};

template <class T, std::size_t HeadDim>
struct attention_head {
  static_assert(HeadDim > 0, "attention_head<T, HeadDim>: 'HeadDim' must be at least 1; give the size of one head");

  /// What is packed, and all sums; a probability is rounded to T where it is an operand.
  using A = accumulation_t<T>;
  static constexpr std::size_t width = round_up(HeadDim, tile_padding);
  static constexpr std::size_t lane = lane_count_v<T>;
  static constexpr std::size_t query_vectors = tile_queries / lane;
  static constexpr std::size_t width_vectors = width / lane;
  static constexpr std::size_t tile_elements = tile_keys * tile_queries;

  /// Elements of packed keys (or values, or their gradients).
  static constexpr std::size_t packed(std::size_t keys) { return round_up(keys, tile_group) * width; }
  static constexpr std::size_t forward_block = tile_queries * (2 * width + 1) + tile_elements;
  static constexpr std::size_t backward_block = tile_queries * 5 * width + 2 * tile_elements;

  static A scale() { return static_cast<A>(1 / std::sqrt(static_cast<double>(HeadDim))); }
  static A scale_log2() { return static_cast<A>(1.44269504088896340736 / std::sqrt(static_cast<double>(HeadDim))); }

  static void pack(T const* from, std::size_t stride, std::size_t rows, A* to) {
    pack_rows(from, stride, rows, HeadDim, to, width, round_up(rows, tile_group));
  }

  /// Which keys of a tile a block of queries sees: key `first_key + j` is visible to query `first_query + t` if
  /// j <= t + shift.
  struct causal_tile {
    std::ptrdiff_t shift;
    std::size_t keys;

    /// Keys of the tile that some of the queries up to lane t sees.
    [[nodiscard]] std::size_t visible_to(std::size_t t) const {
      std::ptrdiff_t const n = static_cast<std::ptrdiff_t>(t) + shift + 1;
      return n <= 0 ? 0 : static_cast<std::size_t>(n) < keys ? static_cast<std::size_t>(n) : keys;
    }
    /// The first lane that sees key j.
    [[nodiscard]] std::size_t first_query(std::size_t j) const {
      std::ptrdiff_t const t = static_cast<std::ptrdiff_t>(j) - shift;
      return t <= 0 ? 0 : static_cast<std::size_t>(t);
    }
  };

  /// out[keys, tile_queries] = rows · columns, where the second half of the keys of a diagonal tile is of no use to the
  /// first half of the queries.
  static void scores(causal_tile const& tile, A const* rows, A const* columns, A* out) {
    constexpr std::size_t half = tile_queries / 2;
    for (std::size_t j = 0; j < tile.keys; j += tile_group) {
      A const* a = rows + j * width;
      A* c = out + j * tile_queries;
      if (tile.first_query(j) < half)
        tile_product<A, query_vectors, false, false>(HeadDim, a, width, columns, tile_queries, c, tile_queries);
      else
        tile_product<A, query_vectors / 2, false, false>(HeadDim, a, width, columns + half, tile_queries, c + half,
                                                         tile_queries);
    }
  }

  /// Lane t of vector v sees key j.
  static auto visible(causal_tile const& tile, std::size_t v, std::size_t j) {
    lanes<A> index{};
    for (std::size_t i = 0; i < lane; ++i) index[i] = static_cast<A>(v * lane + i);
    return index >= lanes<A>{} + static_cast<A>(tile.first_query(j));
  }

  static void clear(A* tile, std::size_t v, std::size_t from, std::size_t keys) {
    for (std::size_t j = from; j < round_up(keys, tile_group); ++j)
      store(tile + j * tile_queries + v * lane, lanes<A>{});
  }

  /// y and log_sum_exp of `count` <= tile_queries queries, the first of which sees keys 0..diagonal.
  static void forward(strided_rows<T const> q, std::size_t count, A const* k, A const* v, std::size_t keys,
                      std::ptrdiff_t diagonal, strided_rows<T> y, A* log_sum_exp, A* scratch) {
    A* const columns = scratch;
    A* const out = columns + tile_queries * width;
    A* const tile_scores = out + tile_queries * width;
    A* const factor = tile_scores + tile_elements;
    constexpr A infinity = std::numeric_limits<A>::infinity();
    transpose_scaled(q.data, q.stride, count, HeadDim, scale_log2(), columns, tile_queries, tile_queries);
    std::memset(out, 0, tile_queries * width * sizeof(A));
    lanes<A> maximum[query_vectors], sum[query_vectors];
    for (std::size_t i = 0; i < query_vectors; ++i) {
      maximum[i] = lanes<A>{} - infinity;
      sum[i] = lanes<A>{};
    }
    std::size_t const limit = causal_tile{diagonal, keys}.visible_to(count - 1);
    for (std::size_t first = 0; first < limit; first += tile_keys) {
      causal_tile const tile{diagonal - static_cast<std::ptrdiff_t>(first),
                             limit - first < tile_keys ? limit - first : tile_keys};
      scores(tile, k + first * width, columns, tile_scores);
      for (std::size_t i = 0; i < query_vectors; ++i) {
        A* const s = tile_scores + i * lane;
        std::size_t const full = tile.visible_to(i * lane), some = tile.visible_to(i * lane + lane - 1);
        lanes<A> m = maximum[i];
        for (std::size_t j = 0; j < full; ++j) m = larger(load(s + j * tile_queries, whole<A>{}), m);
        for (std::size_t j = full; j < some; ++j) {
          lanes<A> const x = visible(tile, i, j) ? load(s + j * tile_queries, whole<A>{}) : lanes<A>{} - infinity;
          store(s + j * tile_queries, x);
          m = larger(x, m);
        }
        // A row that sees nothing has maximum -inf; its exponents are then -inf - 0.
        lanes<A> const base = m == lanes<A>{} - infinity ? lanes<A>{} : m;
        lanes<A> const rescale = exp2_of_negative<A>(maximum[i] - base);
        lanes<A> total = sum[i] * rescale;
        for (std::size_t j = 0; j < some; ++j) {
          lanes<A> const p = exp2_of_negative<A>(load(s + j * tile_queries, whole<A>{}) - base);
          store(s + j * tile_queries, rounded_to<T>(p));
          total += p;
        }
        clear(tile_scores, i, some, tile.keys);
        store(factor + i * lane, rescale);
        maximum[i] = m;
        sum[i] = total;
      }
      if (first > 0)
        for (std::size_t t = 0; t < count; ++t)
          for (std::size_t d = 0; d < width; d += lane)
            store(out + t * width + d, load(out + t * width + d, whole<A>{}) * factor[t]);
      for (std::size_t t = 0; t < count; t += tile_group)
        tile_product<A, width_vectors, true, true>(tile.visible_to(t + tile_group - 1), tile_scores + t, tile_queries,
                                                   v + first * width, width, out + t * width, width);
    }
    A totals[tile_queries], maxima[tile_queries];
    std::memcpy(totals, sum, sizeof totals);
    std::memcpy(maxima, maximum, sizeof maxima);
    for (std::size_t t = 0; t < count; ++t) {
      A const total = totals[t];
      // total is 0 in a row that sees nothing, else at least 1 (or NaN, which is passed on).
      A const inverse = total == A(0) ? A(0) : A(1) / total;
      for (std::size_t d = 0; d < HeadDim; ++d) y.row(t)[d] = static_cast<T>(out[t * width + d] * inverse);
      log_sum_exp[t] = total == A(0) ? -infinity : maxima[t] * static_cast<A>(0.69314718055994530942) + std::log(total);
    }
  }

  /// What one block of queries adds to dk and dv (packed), and its dq. dk is without the factor `scale()`.
  static void backward(strided_rows<T const> q, std::size_t count, A const* k, A const* v, std::size_t keys,
                       std::ptrdiff_t diagonal, strided_rows<T const> y, strided_rows<T const> dy, A const* log_sum_exp,
                       strided_rows<T> dq, A* dk, A* dv, A* scratch) {
    A* const columns = scratch;
    A* const gradient_columns = columns + tile_queries * width;
    A* const query = gradient_columns + tile_queries * width;
    A* const gradient = query + tile_queries * width;
    A* const out = gradient + tile_queries * width;
    A* const p_tile = out + tile_queries * width;
    A* const ds_tile = p_tile + tile_elements;
    transpose_scaled(q.data, q.stride, count, HeadDim, scale_log2(), columns, tile_queries, tile_queries);
    transpose_scaled(dy.data, dy.stride, count, HeadDim, A(1), gradient_columns, tile_queries, tile_queries);
    pack_rows(q.data, q.stride, count, HeadDim, query, width, tile_queries);
    pack_rows(dy.data, dy.stride, count, HeadDim, gradient, width, tile_queries);
    std::memset(out, 0, tile_queries * width * sizeof(A));
    constexpr A infinity = std::numeric_limits<A>::infinity();
    A log2_sums[tile_queries], inners[tile_queries];
    for (std::size_t t = 0; t < tile_queries; ++t) {
      // Rows that see nothing, and the padding: probabilities 2^(s - inf) = 0.
      bool const empty = t >= count || log_sum_exp[t] == -infinity;
      log2_sums[t] = empty ? infinity : log_sum_exp[t] * static_cast<A>(1.44269504088896340736);
      inners[t] =
          t < count ? sum_over<A>(HeadDim,
                                  [&](std::size_t d, auto n) { return load(y.row(t) + d, n) * load(dy.row(t) + d, n); })
                    : A(0);
    }
    std::size_t const limit = causal_tile{diagonal, keys}.visible_to(count - 1);
    for (std::size_t first = 0; first < limit; first += tile_keys) {
      causal_tile const tile{diagonal - static_cast<std::ptrdiff_t>(first),
                             limit - first < tile_keys ? limit - first : tile_keys};
      scores(tile, k + first * width, columns, p_tile);
      scores(tile, v + first * width, gradient_columns, ds_tile);
      for (std::size_t i = 0; i < query_vectors; ++i) {
        A* const s = p_tile + i * lane;
        A* const ds = ds_tile + i * lane;
        lanes<A> const log2_sum = load(log2_sums + i * lane, whole<A>{}), inner = load(inners + i * lane, whole<A>{});
        std::size_t const full = tile.visible_to(i * lane), some = tile.visible_to(i * lane + lane - 1);
        for (std::size_t j = 0; j < some; ++j) {
          lanes<A> p = exp2_of_negative<A>(load(s + j * tile_queries, whole<A>{}) - log2_sum);
          lanes<A> change = p * (load(ds + j * tile_queries, whole<A>{}) - inner);
          if (j >= full) {
            auto const seen = visible(tile, i, j);
            p = seen ? p : lanes<A>{};
            change = seen ? change : lanes<A>{};
          }
          store(s + j * tile_queries, rounded_to<T>(p));
          store(ds + j * tile_queries, rounded_to<T>(change));
        }
        clear(p_tile, i, some, tile.keys);
        clear(ds_tile, i, some, tile.keys);
      }
      for (std::size_t j = 0; j < tile.keys; j += tile_group) {
        std::size_t const t = tile.first_query(j), row = j * tile_queries + t, at = (first + j) * width;
        tile_product<A, width_vectors, false, true>(tile_queries - t, p_tile + row, tile_queries, gradient + t * width,
                                                    width, dv + at, width);
        tile_product<A, width_vectors, false, true>(tile_queries - t, ds_tile + row, tile_queries, query + t * width,
                                                    width, dk + at, width);
      }
      for (std::size_t t = 0; t < count; t += tile_group)
        tile_product<A, width_vectors, true, true>(tile.visible_to(t + tile_group - 1), ds_tile + t, tile_queries,
                                                   k + first * width, width, out + t * width, width);
    }
    for (std::size_t t = 0; t < count; ++t)
      for (std::size_t d = 0; d < HeadDim; ++d) dq.row(t)[d] = static_cast<T>(out[t * width + d] * scale());
  }

 private:
  [[gnu::always_inline]] static lanes<A> larger(lanes<A> const& a, lanes<A> const& b) { return a > b ? a : b; }
};

}  // namespace heddle::host::detail
