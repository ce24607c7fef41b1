// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/layout/layout.hpp>

namespace heddle {

/// One sharding rule as a value: dimension `dim` may be split over axis `axis`.
struct rule_value {
  name_id dim = 0;
  name_id axis = 0;
};

inline constexpr std::size_t max_rules = 24;

/// Rules in order of priority.
struct rule_list {
  std::size_t count = 0;
  std::array<rule_value, max_rules> rule{};
};

/// Binds a dimension name to a mesh axis: `shard<heads, tp>`.
template <class DimensionName, class AxisTag>
struct shard {
  static_assert(DimName<DimensionName>,
                "shard<Dimension, Axis>: 'Dimension' must be a dimension name; write shard<heads, tp>");
  static_assert(AxisName<AxisTag>, "shard<Dimension, Axis>: 'Axis' must be an axis name; write shard<heads, tp>");
  using dim = DimensionName;
  using axis = AxisTag;
  static constexpr rule_value value = {id_v<DimensionName>, id_v<AxisTag>};
};

/// Sharding rules in order of priority: for one placement, the first rule that claims an axis gets it.
template <class... Shards>
struct rules {
  static_assert(sizeof...(Shards) <= max_rules, "rules<Shards...>: must be at most max_rules rules; merge some");
  static constexpr rule_list value = {sizeof...(Shards), {{Shards::value...}}};

 private:
  static constexpr bool differ() {
    for (std::size_t i = 0; i != value.count; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (value.rule[i].dim == value.rule[j].dim && value.rule[i].axis == value.rule[j].axis) return false;
    return true;
  }
  static_assert(differ(), "rules<Shards...>: a rule must appear once; remove the repeated shard<Dimension, Axis>");
};

/// Applies the rules once to a set of dimensions: the layout of a tensor with these dimensions, or of the iteration
/// space of an op that touches them. Dimensions in `whole` claim nothing (a norm's own dimension, attention's
/// sequence); axes the mesh lacks, or of size 1, are claimed by nobody.
constexpr layout place(mesh_value const& mesh, rule_list const& rules, dimension_list const& dims,
                       dimension_list const& whole = {}) {
  layout result{};
  for (std::size_t r = 0; r < rules.count; ++r) {
    std::size_t const a = mesh.index_of(rules.rule[r].axis);
    if (a == mesh.axes || mesh.axis[a].size == 1 || result.is_split(a)) continue;
    if (!dims.has(rules.rule[r].dim) || whole.has(rules.rule[r].dim)) continue;
    result.split(a, rules.rule[r].dim);
  }
  return result;
}

}  // namespace heddle
