// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/redistribution.hpp>
#include <utility>

// Every layout of a small tensor on a small mesh, and laws that are checked for every pair of them.
namespace heddle::laws {

/// Three axes, three dimensions: 176.
inline constexpr std::size_t max_layouts = 180;

struct layout_set {
  std::size_t count = 0;
  std::array<layout, max_layouts> at{};
};

/// Every way in which each axis is replicated, partial, or splits a dimension at any significance among the axes that
/// split it, whether or not the sizes divide; with `padded`, every split may pad.
constexpr layout_set every_layout(mesh_value const& mesh, dimension_list const& dims, bool padded = false) {
  layout_set all{};
  all.count = 1;
  for (std::size_t a = 0; a < mesh.axes; ++a) {
    layout_set next{};
    for (std::size_t n = 0; n < all.count; ++n) {
      layout l = all.at[n];
      next.at[next.count++] = l;
      l.make_partial(a);
      next.at[next.count++] = l;
      for (std::size_t k = 0; k < dims.rank; ++k) {
        name_id const dim = dims.dim[k].name;
        std::size_t const places = all.at[n].splits(dim) + 1;
        for (std::size_t place = 0; place < places; ++place) {
          l = all.at[n];
          for (auto& other : l.axis)
            if (other.kind == placement::split && other.dim == dim && other.order >= place) ++other.order;
          l.axis[a] = {placement::split, static_cast<std::uint8_t>(place), padded, dim};
          next.at[next.count++] = l;
        }
      }
    }
    all = next;
  }
  return all;
}

/// A mesh and a tensor's dimensions: what a law is checked on.
template <class Mesh, class Dims, bool Padded = false>
struct on {
  static constexpr mesh_value mesh = Mesh::value;
  static constexpr dimension_list dims = Dims::value;
  static constexpr layout_set layouts = every_layout(mesh, dims, Padded);
};

/// A law says whether it holds for a pair of layouts and the path between them. Here: for all pairs whose first member
/// is layout `row`.
template <class Law, class Case>
constexpr bool holds_in_row(std::size_t row) {
  for (std::size_t n = 0; n < Case::layouts.count; ++n)
    if (!Law::holds(Case::mesh, Case::dims, Case::layouts.at[row], Case::layouts.at[n],
                    find_redistribution(Case::mesh, Case::dims, Case::layouts.at[row], Case::layouts.at[n])))
      return false;
  return true;
}

/// One constant expression per row: compilers bound the work of each, not of all together.
template <class Law, class Case, std::size_t Row>
inline constexpr bool row_holds = holds_in_row<Law, Case>(Row);

template <class Law, class Case, std::size_t Stride, std::size_t... Row>
constexpr bool rows_hold(std::index_sequence<Row...>) {
  return (row_holds<Law, Case, Row * Stride> && ...);
}
/// The compiler checks every pair, or every pair of each `Stride`-th row.
template <class Law, class Case, std::size_t Stride = 1>
inline constexpr bool for_all_pairs =
    rows_hold<Law, Case, Stride>(std::make_index_sequence<(Case::layouts.count + Stride - 1) / Stride>{});

/// The same at run time, for sets whose pairs are too many for the compiler. Returns how many rows fail.
template <class Law, class Case>
std::size_t failing_rows() {
  std::size_t failing = 0;
  for (std::size_t row = 0; row < Case::layouts.count; ++row) failing += holds_in_row<Law, Case>(row) ? 0 : 1;
  return failing;
}

/// Several laws as one.
template <class... Laws>
struct all_of {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& a, layout const& b,
                              redistribution const& path) {
    return (Laws::holds(mesh, dims, a, b, path) && ...);
  }
};

}  // namespace heddle::laws
