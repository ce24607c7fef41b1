// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/layout.hpp>
#include <limits>
#include <vector>

// A global tensor of known values, and the parts of it that ranks hold, cut by a plain formula of its own. All values
// are small whole numbers in double: every sum is exact and every comparison is of bits.
namespace heddle::laws {

/// The value of a global element, and one rank's summand of it where it is partial over `ways` ranks together.
constexpr double element_value(std::size_t global) { return static_cast<double>((global * 7 + 3) % 101); }
constexpr double summand(std::size_t global, std::size_t part, std::size_t ways) {
  auto const noise = [&](std::size_t p) { return static_cast<double>((global * 5 + p * 11) % 17) - 8; };
  if (part != 0) return noise(part);
  double first = element_value(global);
  for (std::size_t p = 1; p < ways; ++p) first -= noise(p);
  return first;
}

/// A rank's part of a tensor: which global element each local one is; -1 for padding.
inline std::vector<std::int64_t> cut(mesh_value const& mesh, dimension_list const& dims, layout const& l,
                                     coordinates const& at) {
  std::vector<std::int64_t> local{0};
  for (std::size_t k = 0; k < dims.rank; ++k) {
    // Each axis, from the most significant, cuts what is left of the dimension; what it pads has no index.
    std::size_t begin = 0, length = dims.dim[k].stored, end = dims.dim[k].size;
    for (std::size_t order = 0; order < mesh.axes; ++order)
      for (std::size_t a = 0; a < mesh.axes; ++a)
        if (l.axis[a].kind == placement::split && l.axis[a].dim == dims.dim[k].name && l.axis[a].order == order) {
          length = length / mesh.axis[a].size + (length % mesh.axis[a].size != 0);
          begin += length * at[a];
          end = std::min(end, begin + length);
        }
    std::vector<std::int64_t> next;
    for (std::int64_t const outer : local)
      for (std::size_t i = begin; i < begin + length; ++i)
        next.push_back(outer < 0 || i >= end
                           ? -1
                           : outer * static_cast<std::int64_t>(dims.dim[k].size) + static_cast<std::int64_t>(i));
    local = next;
  }
  return local;
}

/// The number of a rank among those whose summands make up a value that is partial over `axes`, and how many there are.
struct part_of_sum {
  std::size_t part = 0;
  std::size_t ways = 1;
};
constexpr part_of_sum part_over(mesh_value const& mesh, layout const& l, coordinates const& at) {
  part_of_sum p{};
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (l.axis[a].kind == placement::partial) {
      p.part = p.part * mesh.axis[a].size + at[a];
      p.ways *= mesh.axis[a].size;
    }
  return p;
}

/// What the rank at `at` holds of global element `g` when the value was made under `made` and is now in `now`: the sum
/// over the axes that have been completed since.
inline double held(mesh_value const& mesh, layout const& made, layout const& now, coordinates const& at,
                   std::size_t g) {
  double total = 0;
  for (std::size_t r = 0; r < mesh.size(); ++r) {
    coordinates const other = mesh.coordinates_of(r);
    bool counts = true;
    for (std::size_t a = 0; a < mesh.axes; ++a) {
      bool const completed = made.axis[a].kind == placement::partial && now.axis[a].kind != placement::partial;
      counts = counts && (other[a] == at[a] || completed);
    }
    part_of_sum const p = part_over(mesh, made, other);
    if (counts) total += summand(g, p.part, p.ways);
  }
  return total;
}

/// This rank's part of the tensor, and NaN where there is padding: it must never reach a real element.
inline std::vector<double> part_of_tensor(mesh_value const& mesh, dimension_list const& dims, layout const& made,
                                          layout const& now, coordinates const& at) {
  std::vector<double> values;
  for (std::int64_t const g : cut(mesh, dims, now, at))
    values.push_back(g < 0 ? std::numeric_limits<double>::quiet_NaN()
                           : held(mesh, made, now, at, static_cast<std::size_t>(g)));
  return values;
}

/// Equal wherever the second, made by `part_of_tensor`, is a real element.
inline bool same_elements(std::vector<double> const& got, std::vector<double> const& expected) {
  if (got.size() != expected.size()) return false;
  for (std::size_t i = 0; i < got.size(); ++i)
    if (expected[i] == expected[i] && !(got[i] == expected[i])) return false;
  return true;
}

}  // namespace heddle::laws
