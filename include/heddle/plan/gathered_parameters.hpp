// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/plan/parameters.hpp>

namespace heddle {

/// Where the parameters of a stage that do not rest as they are computed with stand while they are used.
///
/// Units (nn/parameter_unit.hpp) are visited one after the other, and while one computes the next one's parameters
/// arrive; so two neighbours stand side by side, and nothing else. Even visits begin at the front of the area and odd
/// ones end at its back: the area is as large as the largest pair of neighbours.
template <class R, stage_kind Kind>
struct gathered_parameters {
  using parameters = stage_parameters<R, Kind>;
  static constexpr auto units = parameters::units;
  static constexpr std::size_t unit_count = units.size();
  static constexpr std::size_t use_count = parameters::use_count;

 private:
  using element = typename R::element;
  struct table {
    std::array<std::size_t, use_count> value{};    ///< of each use, from the beginning of its unit
    std::array<std::size_t, use_count> scratch{};  ///< what bringing it needs, likewise
    std::array<std::size_t, unit_count> size{};    ///< of one copy of each unit
    std::array<std::size_t, unit_count + 1> first_visit{};
    std::size_t area = 0;
  };
  static constexpr table build() {
    table t{};
    std::size_t before = 0;  // the size of the visit before
    for (std::size_t u = 0; u < unit_count; ++u) {
      std::size_t size = 0;
      for (std::size_t k = units[u].first_use; k < units[u].first_use + units[u].uses; ++k) {
        redistribution const& path = parameters::entry[parameters::of_use[k]].gather;
        if (path.empty()) continue;
        t.value[k] = size;
        size += slot<element>(path.to_size);
        t.scratch[k] = size;
        size += slot<element>(redistribution_scratch(R::mesh::value, path));
      }
      t.size[u] = size;
      t.first_visit[u + 1] = t.first_visit[u] + units[u].copies;
      t.area = detail::larger(t.area, before + size);
      if (units[u].copies > 1) t.area = detail::larger(t.area, 2 * size);
      before = size;
    }
    return t;
  }
  static constexpr table built = build();

 public:
  /// Elements of the area; 0 where every parameter rests in its compute layout.
  static constexpr std::size_t elements = built.area;
  static constexpr std::size_t visits = built.first_visit[unit_count];
  /// Of each use, where its value, and the scratch for bringing it, stand from the beginning of its unit.
  static constexpr std::array<std::size_t, use_count> value_offset = built.value;
  static constexpr std::array<std::size_t, use_count> scratch_offset = built.scratch;

  /// The unit whose first use is `use`.
  static constexpr std::size_t unit_of(std::size_t use) {
    std::size_t u = 0;
    while (u + 1 < unit_count && units[u + 1].first_use <= use) ++u;
    return u;
  }
  /// The number of a unit's copy in order of forward.
  static constexpr std::size_t visit_of(std::size_t unit, std::size_t copy) { return built.first_visit[unit] + copy; }
  /// The unit that visit `v` is to.
  static constexpr std::size_t unit_at(std::size_t v) {
    std::size_t u = 0;
    while (built.first_visit[u + 1] <= v) ++u;
    return u;
  }
  /// Where the unit of visit `v` begins in the area.
  static constexpr std::size_t offset_at(std::size_t v) { return v % 2 == 0 ? 0 : built.area - built.size[unit_at(v)]; }
};

}  // namespace heddle
