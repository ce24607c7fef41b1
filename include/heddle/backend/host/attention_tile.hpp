// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>
#include <utility>

#include <heddle/backend/host/lanes.hpp>

/// The pieces of a tile of attention: small products whose operands lie packed in scratch memory, transposed copies,
/// and the exponential. Everything here is inlined or instantiated once per element type and width, never per sequence.
namespace heddle::host::detail {

/// Rows of a tile that are computed together; the rows of every packed operand are padded to it.
inline constexpr std::size_t tile_group = 8;

/// Widths of packed operands are padded to this many elements, a multiple of the vectors of either element type.
inline constexpr std::size_t tile_padding = 16;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

#if defined(__AVX512F__)
inline constexpr std::size_t tile_vectors = 4;  // 32 registers: 4 x 4 or 8 x 3 sums, and the operands
#else
inline constexpr std::size_t tile_vectors = 3;  // 16 registers: 4 x 3 sums, 3 + 1 operands
#endif

/// Rows of one kernel: enough independent sums to hide the latency of the multiply-add, few enough for the registers.
constexpr std::size_t tile_rows(std::size_t vectors) {
  return vectors * tile_group <= tile_vectors * (tile_vectors + (tile_vectors == 4 ? 2 : 1)) ? tile_group
                                                                                             : tile_group / 2;
}

/// Makes g++ hold a vector in a register: tuned for an older Zen (what -march=native means to g++ 12 on newer ones), it
/// would read the operand from memory in each multiply-add, at 0.7 of the rate.
template <class V>
[[gnu::always_inline]] inline void keep_in_register([[maybe_unused]] V& value) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
  asm("" : "+v"(value));
#endif
}

template <class T, std::size_t Vectors, std::size_t... Index>
[[gnu::always_inline]] inline void tile_step(lanes<T>* sum, lanes<T> const* b, T const* a, std::size_t row_stride,
                                             std::index_sequence<Index...>) {
  ((sum[Index] += a[(Index / Vectors) * row_stride] * b[Index % Vectors]), ...);
}

template <class T, std::size_t... Index>
[[gnu::always_inline]] inline void tile_load(lanes<T>* to, T const* from, std::size_t row_stride, std::size_t vectors,
                                             std::index_sequence<Index...>) {
  (std::memcpy(to + Index, from + (Index / vectors) * row_stride + (Index % vectors) * lane_count_v<T>, lane_bytes),
   ...);
}

template <class T, std::size_t... Index>
[[gnu::always_inline]] inline void tile_store(T* to, lanes<T> const* from, std::size_t row_stride, std::size_t vectors,
                                              std::index_sequence<Index...>) {
  (std::memcpy(to + (Index / vectors) * row_stride + (Index % vectors) * lane_count_v<T>, from + Index, lane_bytes),
   ...);
}

/// c[Rows, Vectors·lanes] (+)= a·b with the sums in registers. Folds instead of loops: g++ 12 keeps an array of vectors
/// that a loop updates in memory. `TransposeA`: element (row, k) of a is a[k·lda + row], else a[row·lda + k].
template <class T, std::size_t Rows, std::size_t Vectors, bool TransposeA, bool Accumulate>
[[gnu::noinline]] void tile_kernel(std::size_t depth, T const* a, std::size_t lda, T const* b, std::size_t ldb, T* c,
                                   std::size_t ldc) {
  using all = std::make_index_sequence<Rows * Vectors>;
  lanes<T> sum[Rows * Vectors] = {};
  if constexpr (Accumulate) tile_load<T>(sum, c, ldc, Vectors, all{});
  for (std::size_t k = 0; k < depth; ++k) {
    lanes<T> row[Vectors];
    tile_load<T>(row, b + k * ldb, 0, Vectors, std::make_index_sequence<Vectors>{});
    for (lanes<T>& r : row) keep_in_register(r);
    if constexpr (TransposeA)
      tile_step<T, Vectors>(sum, row, a + k * lda, 1, all{});
    else
      tile_step<T, Vectors>(sum, row, a + k, lda, all{});
  }
  tile_store<T>(c, sum, ldc, Vectors, all{});
}

/// One group of `tile_group` rows, in panels of columns that differ by at most one vector.
template <class T, std::size_t Vectors, bool TransposeA, bool Accumulate>
[[gnu::always_inline]] inline void tile_product(std::size_t depth, T const* a, std::size_t lda, T const* b,
                                                std::size_t ldb, T* c, std::size_t ldc) {
  constexpr std::size_t panels = (Vectors + tile_vectors - 1) / tile_vectors;
  constexpr std::size_t here = (Vectors + panels - 1) / panels;
  constexpr std::size_t rows = tile_rows(here);
  std::size_t const row_step = TransposeA ? rows : rows * lda;
  for (std::size_t r = 0; r < tile_group / rows; ++r)
    tile_kernel<T, rows, here, TransposeA, Accumulate>(depth, a + r * row_step, lda, b, ldb, c + r * rows * ldc, ldc);
  if constexpr (Vectors > here)
    tile_product<T, Vectors - here, TransposeA, Accumulate>(depth, a, lda, b + here * lane_count_v<T>, ldb,
                                                            c + here * lane_count_v<T>, ldc);
}

/// One stage of the transposition of a square of lanes: exchanges the off-diagonal quarters of each 2·Half square.
template <std::size_t Half, class V, std::size_t... Index>
[[gnu::always_inline]] inline void exchange_quarters(V& upper, V& lower, std::index_sequence<Index...>) {
  constexpr std::size_t n = sizeof...(Index);
  V const a = upper, b = lower;
#if defined(__CUDACC__)
  // nvcc hands the host compiler these indices without their expansion, of which there would be no pack left.
  for (std::size_t i = 0; i < n; ++i) {
    bool const left = (i / Half) % 2 == 0;
    upper[i] = left ? a[i] : b[i - Half];
    lower[i] = left ? a[i + Half] : b[i];
  }
#else
  upper = __builtin_shufflevector(a, b, static_cast<int>((Index / Half) % 2 == 0 ? Index : n + Index - Half)...);
  lower = __builtin_shufflevector(a, b, static_cast<int>((Index / Half) % 2 == 0 ? Index + Half : n + Index)...);
#endif
}

template <std::size_t Half, class T>
[[gnu::always_inline]] inline void transpose_stages(lanes<T>* row) {
  constexpr std::size_t n = lane_count_v<T>;
  for (std::size_t i = 0; i < n; ++i)
    if ((i / Half) % 2 == 0) exchange_quarters<Half>(row[i], row[i + Half], std::make_index_sequence<n>{});
  if constexpr (2 * Half < n) transpose_stages<2 * Half, T>(row);
}

/// to[c·to_stride + r] = factor · from[r·from_stride + c] for r < rows, c < columns; columns of `to` from `rows` up to
/// `padded_rows` (a multiple of the lanes) become 0.
template <class T>
void transpose_scaled(T const* from, std::size_t from_stride, std::size_t rows, std::size_t columns,
                      accumulation_t<T> factor, accumulation_t<T>* to, std::size_t to_stride, std::size_t padded_rows) {
  using A = accumulation_t<T>;
  constexpr std::size_t n = lane_count_v<T>;
  for (std::size_t r = 0; r < padded_rows; r += n) {
    std::size_t c = 0;
    if (r + n <= rows)
      for (; c + n <= columns; c += n) {
        lanes<T> block[n];
        for (std::size_t i = 0; i < n; ++i) block[i] = load(from + (r + i) * from_stride + c, whole<T>{}) * factor;
        transpose_stages<1, A>(block);
        for (std::size_t i = 0; i < n; ++i) store(to + (c + i) * to_stride + r, block[i]);
      }
    for (; c < columns; ++c)
      for (std::size_t i = 0; i < n; ++i)
        to[c * to_stride + r + i] = r + i < rows ? static_cast<A>(from[(r + i) * from_stride + c]) * factor : A(0);
  }
}

/// to[padded_rows, width] = from[rows, columns] with zeros around it.
template <class T>
void pack_rows(T const* from, std::size_t from_stride, std::size_t rows, std::size_t columns, accumulation_t<T>* to,
               std::size_t width, std::size_t padded_rows) {
  using A = accumulation_t<T>;
  for (std::size_t r = 0; r < rows; ++r) {
    T const* const row = from + r * from_stride;
    if constexpr (is_narrow<T>)
      for_each_group<T>(columns,
                        [=](std::size_t i, auto count) { store<A>(to + r * width + i, load(row + i, count), count); });
    else
      std::memcpy(to + r * width, row, columns * sizeof(T));
    for (std::size_t c = columns; c < width; ++c) to[r * width + c] = A(0);
  }
  std::memset(to + rows * width, 0, (padded_rows - rows) * width * sizeof(A));
}

/// 2^x for x <= 0, also -inf (exactly 0) and NaN (NaN); 0 below the smallest normal number. Relative error below 2
/// units in the last place. x = n + f with n whole, |f| <= 1/2; Taylor series of 2^f, cut below a quarter of a unit.
template <class T>
[[gnu::always_inline]] inline lanes<T> exp2_of_negative(lanes<T> x) {
  using words = typename lane_types<T>::words;
  constexpr bool single = sizeof(T) == 4;
  constexpr int digits = single ? 23 : 52;
  constexpr int terms = single ? 8 : 14;
  constexpr T lowest = single ? T(-126) : T(-1022);
  constexpr T round = single ? T(0x1.8p23) : T(0x1.8p52);
  constexpr auto one = static_cast<typename lane_types<T>::word>(single ? 0x3F800000u : 0x3FF0000000000000u);
  struct table {
    T c[14];
  };
  constexpr table series = [] {
    table t{};
    double c = 1;
    for (int i = 0; i < 14; ++i) {
      t.c[i] = static_cast<T>(c);
      c = c * 0.69314718055994530942 / (i + 1);
    }
    return t;
  }();
  auto const vanishes = x < lowest;
  lanes<T> const y = vanishes ? lanes<T>{} + lowest : x;
  lanes<T> const shifted = y + round;  // n stands in the low bits
  lanes<T> const f = y - (shifted - round);
  lanes<T> p = lanes<T>{} + series.c[terms - 1];
  for (int i = terms - 2; i >= 0; --i) p = p * f + series.c[i];
  words const power = (reinterpret_cast<words>(shifted) << digits) + one;
  p *= reinterpret_cast<lanes<T>>(power);
  return vanishes ? lanes<T>{} : p;
}

}  // namespace heddle::host::detail
