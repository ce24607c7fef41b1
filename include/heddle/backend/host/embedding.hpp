// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/pointwise.hpp>
#include <heddle/tensor/argument_checks.hpp>
#include <heddle/tensor/table_row.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heddle::host {

namespace detail {

/// `heddle::table_row` in the host's sizes.
inline std::size_t table_row(std::int32_t id, std::int64_t first, std::size_t vocabulary) {
  return static_cast<std::size_t>(heddle::table_row(id, first, static_cast<std::int64_t>(vocabulary)));
}

template <class T>
inline void embedding(std::size_t rows, std::size_t vocabulary, std::size_t width, std::int32_t const* tokens,
                      T const* table, std::int64_t first, T* y) {
  deal_rows(rows, width, sum_grain, [=](std::size_t row, std::size_t last) {
    for (; row < last; ++row) {
      std::size_t const from = table_row(tokens[row], first, vocabulary);
      if (from < vocabulary)
        std::memcpy(static_cast<void*>(y + row * width), table + from * width, width * sizeof(T));
      else
        std::memset(static_cast<void*>(y + row * width), 0, width * sizeof(T));
    }
  });
}

/// The rows whose id the table holds, by id and then in order: what adds up an id's rows in one go.
struct rows_by_id {
  std::size_t const* row;
  std::size_t count;
};
inline rows_by_id order_by_id(std::size_t rows, std::size_t vocabulary, std::int32_t const* tokens,
                              std::int64_t first) {
  auto* const order = reinterpret_cast<std::size_t*>(workspace::of_this_thread().get(rows * sizeof(std::size_t)));
  std::size_t count = 0;
  for (std::size_t row = 0; row < rows; ++row)
    if (table_row(tokens[row], first, vocabulary) < vocabulary) order[count++] = row;
  std::sort(order, order + count,
            [tokens](std::size_t a, std::size_t b) { return tokens[a] != tokens[b] ? tokens[a] < tokens[b] : a < b; });
  return {order, count};
}
/// Columns `begin` to `end - 1` of the narrow table: each id's rows are added up in float, and rounded once.
template <class T>
inline void add_rows_by_id(rows_by_id const& order, std::size_t vocabulary, std::size_t width,
                           std::int32_t const* tokens, T const* dy, std::int64_t first, T* dtable, std::size_t begin,
                           std::size_t end) {
  for (std::size_t i = 0; i < order.count;) {
    std::int32_t const id = tokens[order.row[i]];
    std::size_t last = i + 1;
    while (last < order.count && tokens[order.row[last]] == id) ++last;
    T* const to = dtable + table_row(id, first, vocabulary) * width;
    for_each_group<T>(end - begin, [&](std::size_t at, auto count) {
      lanes<T> sum = load(to + begin + at, count);
      for (std::size_t k = i; k < last; ++k) sum += load(dy + order.row[k] * width + begin + at, count);
      store<T>(to + begin + at, sum, count);
    });
    i = last;
  }
}

template <class T>
inline void embedding_backward(std::size_t rows, std::size_t vocabulary, std::size_t width, std::int32_t const* tokens,
                               T const* dy, std::int64_t first, T* dtable) {
  // By columns, since two rows may have one id; whole cache lines of each row, and enough of them.
  constexpr std::size_t block = 4 * lane_count_v<T>;
  std::size_t const wanted = sum_grain / (rows == 0 ? 1 : rows);
  if constexpr (is_narrow<T>) {
    rows_by_id const order = order_by_id(rows, vocabulary, tokens, first);
    deal_ranges(width, wanted < block ? block : wanted / block * block, [=](std::size_t begin, std::size_t end) {
      add_rows_by_id(order, vocabulary, width, tokens, dy, first, dtable, begin, end);
    });
    return;
  }
  deal_ranges(width, wanted < block ? block : wanted / block * block, [=](std::size_t begin, std::size_t end) {
    for (std::size_t row = 0; row < rows; ++row) {
      std::size_t const to = table_row(tokens[row], first, vocabulary);
      if (to < vocabulary) add_to(end - begin, dy + row * width + begin, dtable + to * width + begin);
    }
  });
}

}  // namespace detail

/// Look-up in a table[Vocab,Width] that may be one part of a table split over its ids: it holds ids `first` to
/// `first + Vocab - 1`. Ids that are held elsewhere give rows of zeros, so that the parts' results add up to the
/// whole's.
struct embeddings {
  /// y[Rows,Width] from tokens[Rows]
  template <std::size_t Rows, std::size_t Vocab, std::size_t Width, class T>
  static void embedding(std::int32_t const* tokens, T const* table, std::int64_t first, T* y) {
    detail::embedding(Rows, Vocab, Width, tokens, table, first, y);
  }

  /// dtable[Vocab,Width] += the rows of dy[Rows,Width] whose id it holds, in the order of the rows
  template <std::size_t Rows, std::size_t Vocab, std::size_t Width, class T>
  static void embedding_backward(std::int32_t const* tokens, T const* dy, std::int64_t first, T* dtable) {
    detail::embedding_backward(Rows, Vocab, Width, tokens, dy, first, dtable);
  }

  /// `heddle::check_tokens`
  static void check_tokens(std::int32_t const* tokens, std::size_t n, std::size_t vocabulary) {
    heddle::check_tokens(tokens, n, vocabulary);
  }
};

}  // namespace heddle::host
