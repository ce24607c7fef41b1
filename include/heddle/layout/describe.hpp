// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/layout.hpp>
#include <heddle/layout/redistribution.hpp>
#include <heddle/layout/rules.hpp>
#include <string>
#include <string_view>

namespace heddle {

// The algebra's values as text, for reports and messages.

/// "dp 2 × pp 2 × tp 2", or "one rank".
inline std::string describe(mesh_value const& mesh) {
  std::string out;
  for (std::size_t a = 0; a < mesh.axes; ++a)
    out += (a == 0 ? "" : " × ") + std::string(mesh.axis[a].text) + " " + std::to_string(mesh.axis[a].size);
  return mesh.axes == 0 ? "one rank" : out;
}

/// "heads→tp, batch→dp": in order of priority; those alone that bind an axis of `mesh`.
template <class... Shards>
std::string describe(mesh_value const& mesh, rules<Shards...>) {
  std::string out;
  [[maybe_unused]] auto const add = [&](auto const& rule, std::string_view dimension, std::string_view axis) {
    if (mesh.index_of(rule.axis) == mesh.axes) return;
    out += (out.empty() ? "" : ", ") + std::string(dimension) + "→" + std::string(axis);
  };
  (add(Shards::value, Shards::dim::name, Shards::axis::name), ...);
  return out.empty() ? "none applies" : out;
}

/// "[batch:dp, sequence:tp, embed] partial cp": the axes that split a dimension stand behind it, the most significant
/// first; over what is not named the value is replicated.
inline std::string describe(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
  std::string out = dims.rank == 0 ? "scalar" : "[";
  for (std::size_t k = 0; k < dims.rank; ++k) {
    out += (k == 0 ? "" : ", ") + std::string(dims.dim[k].text);
    char before = ':';
    for (std::size_t order = 0; order < mesh.axes; ++order)
      for (std::size_t a = 0; a < mesh.axes; ++a)
        if (l.is_split(a) && l.axis[a].dim == dims.dim[k].name && l.axis[a].order == order) {
          out += before + std::string(mesh.axis[a].text) + (l.axis[a].padded ? "(padded)" : "");
          before = '+';
        }
  }
  if (dims.rank != 0) out += "]";
  char const* before = " partial ";
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (l.is_partial(a)) {
      out += before + std::string(mesh.axis[a].text);
      before = ", ";
    }
  return out;
}

/// The local shape: "2 × 32 × 128"; a scalar is "1".
inline std::string describe_extents(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
  auto const extent = local_extents(mesh, dims, l);
  std::string out;
  for (std::size_t k = 0; k < dims.rank; ++k) out += (k == 0 ? "" : " × ") + std::to_string(extent[k]);
  return dims.rank == 0 ? "1" : out;
}

constexpr std::string_view name_of(step_kind kind) {
  constexpr std::string_view names[] = {"slice", "reduce_scatter", "all_to_all", "all_gather", "all_reduce"};
  return names[static_cast<std::size_t>(kind)];
}

/// "all_reduce dp, slice tp"; empty where nothing is to be done.
inline std::string describe(mesh_value const& mesh, redistribution const& path) {
  std::string out;
  for (std::size_t i = 0; i < path.count; ++i)
    out += (i == 0 ? "" : ", ") + std::string(name_of(path.step[i].kind)) + " " +
           std::string(mesh.axis[path.step[i].axis].text);
  return out;
}

}  // namespace heddle
