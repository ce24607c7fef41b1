// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/deal.hpp>
#include <heddle/backend/host/eigen.hpp>
#include <heddle/backend/host/product_blocking.hpp>
#include <heddle/backend/host/widened_product.hpp>

#include <cstddef>
#include <cstring>

namespace heddle::host {

namespace detail {

/// How a product c[m,n] of depth k is cut: into parts of `rows` × `columns`.
struct product_parts {
  std::size_t rows, columns;
};

/// Columns are cut into panels of at most 2048, because Eigen would pack all of a 50257-column operand at once (38 MB
/// at depth 192), and because a panel of c stays in cache between its zeroing and its first accumulation. The rest is
/// for threads: halves of the longer side, until a part is some 100 µs of work, or there are many parts. Both operands
/// of a part are packed anew, so its sides have bounds, which lie where one thread loses less than a tenth.
constexpr product_parts cut_product(std::size_t m, std::size_t n, std::size_t k) {
  constexpr std::size_t panel = 2048, enough = std::size_t{1} << 22, plenty = std::size_t{1} << 27, parts_enough = 8;
  auto const up = [](std::size_t value, std::size_t step) { return (value + step - 1) / step * step; };
  product_parts part{m, n};
  if (n > panel) part.columns = up((n + (n + panel - 1) / panel - 1) / ((n + panel - 1) / panel), 48);
  std::size_t parts = n == 0 ? 1 : (n + part.columns - 1) / part.columns;
  for (;;) {
    std::size_t const work = part.rows * part.columns * k;
    if (work <= enough || (work <= plenty && parts >= parts_enough)) return part;
    bool const rows = part.rows >= (parts < 2 ? 128 : parts < 4 ? 192 : 384), columns = part.columns >= 384;
    if (!rows && !columns) return part;
    // Multiples of what Eigen computes at once: four rows, and three vectors of columns.
    if (rows && (part.rows >= part.columns || !columns))
      part.rows = up(part.rows / 2, 4);
    else
      part.columns = up(part.columns / 2, 48);
    parts *= 2;
  }
}

/// One instance per element type and layout, whatever the shapes. Eigen's products with compile-time sizes, which cost
/// a second of -O3 compile time each, were not faster from 65 columns up (AVX2, best of interleaved runs, GFLOP/s:
/// run-time sizes by Eigen | this | compile-time sizes: 768x128x128 86 | 82 | 86; 768x384x128 90 | 91 | 87; 768x128x512
/// 86 | 88 | 89; 768x65x128 85 | 79 | 85); over 50257 columns this was 1.1 to 1.4 times as fast as Eigen's own
/// blocking.
///
/// Eigen's blocked kernel is called below its expression layer: it is sequential there even if the user compiles with
/// OpenMP, takes our packing buffers, and needs no evaluators.
template <class T, bool TransposeA, bool TransposeB>
[[gnu::noinline]] void product_in_parts(std::size_t m, std::size_t n, std::size_t k, T const* a, T const* b, T* c,
                                        bool accumulate) {
  using kernel =
      Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, TransposeA ? Eigen::ColMajor : Eigen::RowMajor,
                                                     false, T, TransposeB ? Eigen::ColMajor : Eigen::RowMajor, false,
                                                     Eigen::RowMajor, 1>;
  if (m == 0 || n == 0) return;
  auto const index = [](std::size_t value) { return static_cast<Eigen::Index>(value); };
  product_parts const part = cut_product(m, n, k);
  std::size_t const down = (m + part.rows - 1) / part.rows, across = (n + part.columns - 1) / part.columns;
  // Of the largest part: a shorter one, at an edge, needs no more.
  std::size_t bytes = 0;
  if (k > 0)
    for (std::size_t const height : {part.rows, m - (down - 1) * part.rows})
      for (std::size_t const width : {part.columns, n - (across - 1) * part.columns}) {
        std::size_t const needed = product_blocking<T>(index(height), index(width), index(k)).bytes();
        if (needed > bytes) bytes = needed;
      }
  deal(down * across, bytes, nullptr, [&](std::size_t which, std::byte* memory) {
    std::size_t const row = which / across * part.rows, column = which % across * part.columns;
    std::size_t const height = m - row < part.rows ? m - row : part.rows;
    std::size_t const width = n - column < part.columns ? n - column : part.columns;
    T* const out = c + row * n + column;
    if (!accumulate)
      for (std::size_t i = 0; i < height; ++i) std::memset(out + i * n, 0, width * sizeof(T));
    if (k == 0) return;
    product_blocking<T> blocking(index(height), index(width), index(k));
    blocking.pack_into(memory);
    kernel::run(index(height), index(width), index(k), a + (TransposeA ? row : row * k), index(TransposeA ? m : k),
                b + (TransposeB ? column * k : column), index(TransposeB ? k : n), out, 1, index(n), T(1), blocking);
  });
}

/// Operands as they are, or widened ones.
template <class T, bool TransposeA, bool TransposeB>
inline void product_of(std::size_t m, std::size_t n, std::size_t k, T const* a, T const* b, T* c, bool accumulate) {
  if constexpr (is_narrow<T>)
    widened_product<widened_operand<T>, TransposeA, TransposeB>(m, n, k, a, b, c, accumulate);
  else
    product_in_parts<T, TransposeA, TransposeB>(m, n, k, a, b, c, accumulate);
}

}  // namespace detail

/// Matrix products, row-major and contiguous. `TransposeA`: `a` is stored [K,M]; `TransposeB`: `b` is stored [N,K].
/// Dealt in parts to the threads of the rank (`thread_team`), each part sequential. The order of the sums is fixed by
/// the shapes and the machine's caches. `c` must not overlap the operands. Scratch memory is kept per thread, and the
/// last argument, a device's, is not used; a second call of the same shape allocates nothing. The blocking is Goto and
/// van de Geijn's, "Anatomy of high-performance matrix multiplication" (2008), from Eigen. Of a narrow type, sums are
/// in float and rounded once.
struct products {
  /// c[M,N] = op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product(T const* a, T const* b, T* c, T* = nullptr) {
    detail::product_of<T, TransposeA, TransposeB>(M, N, K, a, b, c, false);
  }

  /// c[M,N] += op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product_accumulate(T const* a, T const* b, T* c, T* = nullptr) {
    detail::product_of<T, TransposeA, TransposeB>(M, N, K, a, b, c, true);
  }
};

/// The same with the operands of products of float rounded to tf32, as a device's tensor cores do.
struct tfloat32_products {
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product(float const* a, float const* b, float* c, float* = nullptr) {
    detail::widened_product<detail::tfloat32_operand, TransposeA, TransposeB>(M, N, K, a, b, c, false);
  }
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product_accumulate(float const* a, float const* b, float* c, float* = nullptr) {
    detail::widened_product<detail::tfloat32_operand, TransposeA, TransposeB>(M, N, K, a, b, c, true);
  }
};

}  // namespace heddle::host
