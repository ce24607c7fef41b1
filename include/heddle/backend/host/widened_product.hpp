// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/deal.hpp>
#include <heddle/backend/host/elements.hpp>
#include <heddle/backend/host/product_blocking.hpp>

#include <cstddef>
#include <cstring>

namespace heddle::host::detail {

/// A narrow operand, as the float that it is.
template <class T>
struct widened_operand {
  using element = T;
  static void read(T const* from, std::size_t n, float* to) {
    for_each_group<T>(n, [=](std::size_t i, auto count) { store<float>(to + i, load(from + i, count), count); });
  }
};

/// An operand of the device's tf32: 10 bits of fraction, to nearest, ties away from zero (PTX's cvt.rna.tf32.f32).
struct tfloat32_operand {
  using element = float;
  static lanes<float> rounded(lanes<float> const& value) {
    using words = lane_types<float>::words;
    words bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000U) & ~0x1FFFU;
    lanes<float> nearest;
    std::memcpy(&nearest, &bits, sizeof nearest);
    return value == value ? nearest : value;
  }
  static void read(float const* from, std::size_t n, float* to) {
    for_each_group<float>(n, [=](std::size_t i, auto count) { store(to + i, rounded(load(from + i, count)), count); });
  }
};

/// op(a)·op(b) in float, of operands that are read as `Operand` says: a panel of each at a time, in the thread's
/// workspace, so that the panels stay in its second-level cache. c is rounded once, with what it had before where
/// `accumulate`. Depth is cut alike whatever the other sizes are.
template <class Operand, bool TransposeA, bool TransposeB>
[[gnu::noinline]] void widened_product(std::size_t m, std::size_t n, std::size_t k, typename Operand::element const* a,
                                       typename Operand::element const* b, typename Operand::element* c,
                                       bool accumulate) {
  using T = typename Operand::element;
  using kernel = Eigen::internal::general_matrix_matrix_product<
      Eigen::Index, float, TransposeA ? Eigen::ColMajor : Eigen::RowMajor, false, float,
      TransposeB ? Eigen::ColMajor : Eigen::RowMajor, false, Eigen::RowMajor, 1>;
  constexpr std::size_t most_rows = 256, most_columns = 512, most_depth = 512;
  if (m == 0 || n == 0) return;
  auto const smaller = [](std::size_t x, std::size_t y) { return x < y ? x : y; };
  auto const index = [](std::size_t value) { return static_cast<Eigen::Index>(value); };
  std::size_t const rows = smaller(m, most_rows), columns = smaller(n, most_columns), depth = smaller(k, most_depth);
  std::size_t const down = (m + rows - 1) / rows, across = (n + columns - 1) / columns;
  auto const room = [](std::size_t elements) { return (elements + 31) / 32 * 32; };
  std::size_t const room_a = room(rows * depth), room_b = room(depth * columns), room_c = room(rows * columns);
  // Of the largest part: a shorter one, at an edge, needs no more.
  std::size_t packing = 0;
  for (std::size_t const height : {rows, m - (down - 1) * rows})
    for (std::size_t const width : {columns, n - (across - 1) * columns})
      for (std::size_t const length : {depth, k % most_depth})
        if (length != 0) {
          std::size_t const needed = product_blocking<float>(index(height), index(width), index(length)).bytes();
          if (needed > packing) packing = needed;
        }
  std::size_t const bytes = (room_a + room_b + room_c) * sizeof(float) + packing;
  // height × width of `from`, rows `stride` apart, close together.
  auto const read = [](T const* from, std::size_t stride, std::size_t height, std::size_t width, float* to) {
    for (std::size_t i = 0; i < height; ++i) Operand::read(from + i * stride, width, to + i * width);
  };
  deal(down * across, bytes, nullptr, [&](std::size_t which, std::byte* memory) {
    std::size_t const row = which / across * rows, column = which % across * columns;
    std::size_t const height = smaller(m - row, rows), width = smaller(n - column, columns);
    auto* const panel_a = reinterpret_cast<float*>(memory);
    float *const panel_b = panel_a + room_a, *const sum = panel_b + room_b;
    T* const out = c + row * n + column;
    for (std::size_t i = 0; i < height; ++i)
      for_each_group<T>(width, [&](std::size_t j, auto count) {
        store<float>(sum + i * width + j, accumulate ? load(out + i * n + j, count) : lanes<T>{}, count);
      });
    for (std::size_t first = 0; first < k; first += depth) {
      std::size_t const length = smaller(k - first, depth);
      if constexpr (TransposeA)
        read(a + first * m + row, m, length, height, panel_a);
      else
        read(a + row * k + first, k, height, length, panel_a);
      if constexpr (TransposeB)
        read(b + column * k + first, k, width, length, panel_b);
      else
        read(b + first * n + column, n, length, width, panel_b);
      product_blocking<float> blocking(index(height), index(width), index(length));
      blocking.pack_into(reinterpret_cast<std::byte*>(sum + room_c));
      kernel::run(index(height), index(width), index(length), panel_a, index(TransposeA ? height : length), panel_b,
                  index(TransposeB ? length : width), sum, 1, index(width), 1.0F, blocking);
    }
    for (std::size_t i = 0; i < height; ++i)
      for_each_group<T>(width, [&](std::size_t j, auto count) {
        store<T>(out + i * n + j, load(sum + i * width + j, count), count);
      });
  });
}

}  // namespace heddle::host::detail
