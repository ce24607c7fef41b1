// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/rules.hpp>

namespace heddle {

/// The rule by which `place(mesh, rules, dims, whole)` gives axis `a` to a dimension: its position in `rules`, or
/// `rules.count` where the axis splits nothing. Why a tensor, or an op, lies as it does.
///
/// **Law** (tests/static). With r = claiming_rule(…, a) and l = place(…): l splits axis a exactly where r <
/// rules.count, and then the dimension of rule r.
constexpr std::size_t claiming_rule(mesh_value const& mesh, rule_list const& rules, dimension_list const& dims,
                                    dimension_list const& whole, std::size_t a) {
  for (std::size_t r = 0; r < rules.count && mesh.axis[a].size != 1; ++r)
    if (rules.rule[r].axis == mesh.axis[a].name && dims.has(rules.rule[r].dim) && !whole.has(rules.rule[r].dim))
      return r;
  return rules.count;
}

/// The dimension that keeps a rule from its axis because an algorithm needs it whole: of the first rule that would
/// claim axis `a` but for `whole`; the position in `dims`, or `dims.rank`.
constexpr std::size_t withheld_dimension(mesh_value const& mesh, rule_list const& rules, dimension_list const& dims,
                                         dimension_list const& whole, std::size_t a) {
  for (std::size_t r = 0; r < rules.count && mesh.axis[a].size != 1; ++r)
    if (rules.rule[r].axis == mesh.axis[a].name && dims.has(rules.rule[r].dim) && whole.has(rules.rule[r].dim))
      return dims.index_of(rules.rule[r].dim);
  return dims.rank;
}

}  // namespace heddle
