// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/layout/redistribution.hpp>

namespace heddle {

/// A row-major local tensor seen from one of its dimensions, [outer, extent, inner], which falls into `ways` blocks of
/// ⌈extent/ways⌉ indices: what collectives exchange. The last blocks may have fewer real indices, or none; the rest is
/// padding.
struct block_view {
  std::size_t outer = 1, extent = 1, inner = 1;
  std::size_t ways = 1;

  [[nodiscard]] constexpr std::size_t block() const { return block_extent(extent, ways); }
  /// Elements of a row of block `w` that are real, and all that stand there.
  [[nodiscard]] constexpr std::size_t real(std::size_t w) const {
    std::size_t const begin = w * block(), left = extent > begin ? extent - begin : 0;
    return (left < block() ? left : block()) * inner;
  }
  [[nodiscard]] constexpr std::size_t width() const { return block() * inner; }
  /// Where row `o` of block `w` begins in the tensor.
  [[nodiscard]] constexpr std::size_t at(std::size_t o, std::size_t w) const {
    return (o * extent + w * block()) * inner;
  }
};

constexpr block_view block_view_at(std::array<std::size_t, max_rank> const& extent, std::size_t rank, std::size_t k,
                                   std::size_t ways) {
  block_view v;
  v.ways = ways;
  for (std::size_t i = 0; i < rank; ++i) (i < k ? v.outer : i == k ? v.extent : v.inner) *= extent[i];
  return v;
}

}  // namespace heddle
