// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/dim.hpp>
#include <heddle/layout/mesh.hpp>

namespace heddle {

/// What one mesh axis does to a tensor.
enum class placement : std::uint8_t {
  replicated,  ///< every coordinate holds the same values
  split,       ///< each coordinate holds its block of one dimension
  partial      ///< each coordinate holds a summand; the value is their sum
};

/// How a tensor lies on a mesh: for every axis, replicated, split (of which dimension, and after how many more
/// significant axes of that dimension) or partial. One axis does one thing, so "an axis twice" cannot be written down.
///
/// An axis of n ranks cuts a block of e indices into blocks of e/n, which must divide; where it is `padded`, into
/// blocks of ⌈e/n⌉, of which the last ones hold zeros behind their real indices, or nothing real.
struct layout {
  struct on_axis {
    placement kind = placement::replicated;
    std::uint8_t order = 0;  ///< among the axes that split `dim`: 0 is the most significant
    bool padded = false;     ///< need not divide
    name_id dim = 0;         ///< the split dimension, or 0
    friend constexpr bool operator==(on_axis const&, on_axis const&) = default;
  };
  std::array<on_axis, max_axes> axis{};

  friend constexpr bool operator==(layout const&, layout const&) = default;

  /// How many axes split `dim`.
  [[nodiscard]] constexpr std::size_t splits(name_id dim) const {
    std::size_t n = 0;
    for (auto const& a : axis) n += a.kind == placement::split && a.dim == dim;
    return n;
  }
  /// Axis `a` splits `dim`, less significant than the axes that split it already.
  constexpr void split(std::size_t a, name_id dim, bool padded = false) {
    axis[a] = {placement::split, static_cast<std::uint8_t>(splits(dim)), padded, dim};
  }
  constexpr void replicate(std::size_t a) { axis[a] = {}; }
  constexpr void make_partial(std::size_t a) { axis[a] = {placement::partial, 0, false, 0}; }

  [[nodiscard]] constexpr bool is_split(std::size_t a) const { return axis[a].kind == placement::split; }
  [[nodiscard]] constexpr bool is_partial(std::size_t a) const { return axis[a].kind == placement::partial; }
  [[nodiscard]] constexpr bool has_partial() const {
    for (auto const& a : axis)
      if (a.kind == placement::partial) return true;
    return false;
  }
  /// Whether axis `a` is the least significant of those that split its dimension: the only one that can be gathered.
  [[nodiscard]] constexpr bool is_minor(std::size_t a) const {
    return is_split(a) && axis[a].order + std::size_t{1} == splits(axis[a].dim);
  }
};

/// Ranks that share dimension `dim` under `l`.
constexpr std::size_t ways_of(mesh_value const& mesh, layout const& l, name_id dim) {
  std::size_t ways = 1;
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (l.is_split(a) && l.axis[a].dim == dim) ways *= mesh.axis[a].size;
  return ways;
}

/// Which of the `ways_of` blocks of `dim` the rank at `at` holds.
constexpr std::size_t block_of(mesh_value const& mesh, layout const& l, name_id dim, coordinates const& at) {
  std::size_t block = 0;
  for (std::size_t order = 0; order < mesh.axes; ++order)
    for (std::size_t a = 0; a < mesh.axes; ++a)
      if (l.is_split(a) && l.axis[a].dim == dim && l.axis[a].order == order) block = block * mesh.axis[a].size + at[a];
  return block;
}

/// The larger part of `extent` cut into `ways`: what each block stores.
constexpr std::size_t block_extent(std::size_t extent, std::size_t ways) { return (extent + ways - 1) / ways; }

/// The extents that every rank stores: padded sizes divided by the ranks that share them. (Cutting into blocks of
/// blocks rounds up to the same extent as cutting at once.)
constexpr std::array<std::size_t, max_rank> local_extents(mesh_value const& mesh, dimension_list const& dims,
                                                          layout const& l) {
  std::array<std::size_t, max_rank> extent{};
  for (std::size_t k = 0; k < dims.rank; ++k)
    extent[k] = block_extent(dims.dim[k].stored, ways_of(mesh, l, dims.dim[k].name));
  return extent;
}

/// Elements that every rank stores.
constexpr std::size_t local_size(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
  auto const extent = local_extents(mesh, dims, l);
  std::size_t n = 1;
  for (std::size_t k = 0; k < dims.rank; ++k) n *= extent[k];
  return n;
}

/// The block of dimension k that the rank at `at` holds: where it begins in the global dimension, and how many of its
/// indices are real (the rest is padding).
struct block_range {
  std::size_t origin;
  std::size_t extent;
  std::size_t valid;
};
constexpr block_range local_block(mesh_value const& mesh, dimension const& d, layout const& l, coordinates const& at) {
  block_range b{0, d.stored, d.size};
  for (std::size_t order = 0; order < mesh.axes; ++order)
    for (std::size_t a = 0; a < mesh.axes; ++a) {
      if (!l.is_split(a) || l.axis[a].dim != d.name || l.axis[a].order != order) continue;
      b.extent = block_extent(b.extent, mesh.axis[a].size);
      std::size_t const begin = b.extent * at[a];
      std::size_t const left = b.valid > begin ? b.valid - begin : 0;
      b.origin += begin;
      b.valid = left < b.extent ? left : b.extent;
    }
  return b;
}

/// Whether every axis that splits a dimension divides what it finds, or is allowed to pad it.
constexpr bool splits_evenly(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
  for (std::size_t k = 0; k < dims.rank; ++k) {
    std::size_t extent = dims.dim[k].stored;
    for (std::size_t order = 0; order < mesh.axes; ++order)
      for (std::size_t a = 0; a < mesh.axes; ++a) {
        if (!l.is_split(a) || l.axis[a].dim != dims.dim[k].name || l.axis[a].order != order) continue;
        if (!l.axis[a].padded && extent % mesh.axis[a].size != 0) return false;
        extent = block_extent(extent, mesh.axis[a].size);
      }
  }
  return true;
}

/// The layout of a tensor that has only some of the dimensions of `l`'s: splits of the others are forgotten.
constexpr layout restrict_to(layout const& l, dimension_list const& dims) {
  layout result{};
  for (std::size_t a = 0; a < max_axes; ++a)
    if (l.is_partial(a) || (l.is_split(a) && dims.has(l.axis[a].dim))) result.axis[a] = l.axis[a];
  return result;
}

/// The layout that a value's cotangent must have when it is complete: the same splits, and replicated where the value
/// is partial (each summand moves the sum alike).
constexpr layout cotangent(layout l) {
  for (std::size_t a = 0; a < max_axes; ++a)
    if (l.is_partial(a)) l.replicate(a);
  return l;
}

}  // namespace heddle
