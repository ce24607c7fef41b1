// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/detail/array_view.hpp>
#include <heddle/plan/parameters.hpp>

namespace heddle {

/// Where the parameters of a stage that do not rest as they are computed with stand while they are used.
///
/// Units (nn/parameter_unit.hpp) are visited one after the other, and while one computes the next one's parameters
/// arrive; so two neighbours stand side by side, and nothing else. Even visits begin at the front of the area and odd
/// ones end at its back: the area is as large as the largest pair of neighbours.
struct gathering_table {
  detail::array_view<parameter_unit> units;
  detail::array_view<std::size_t> value_offset;    ///< of each use, from the beginning of its unit
  detail::array_view<std::size_t> scratch_offset;  ///< what bringing it needs, likewise
  detail::array_view<std::size_t> size;            ///< elements of one copy of each unit
  detail::array_view<std::size_t> first_visit;     ///< of each unit, and the number of visits
  std::size_t elements = 0;                        ///< of the area; 0 where every parameter rests in its compute layout

  [[nodiscard]] constexpr std::size_t visits() const { return first_visit[units.size()]; }
  /// Backward visits those from this one on: the first units are forward's alone, or none is.
  [[nodiscard]] constexpr std::size_t first_of_backward() const {
    std::size_t u = 0;
    while (u < units.size() && !units[u].backward) ++u;
    return first_visit[u];
  }
  /// The unit whose first use is `use`.
  [[nodiscard]] constexpr std::size_t unit_of(std::size_t use) const {
    std::size_t u = 0;
    while (u + 1 < units.size() && units[u + 1].first_use <= use) ++u;
    return u;
  }
  /// The number of a unit's copy in order of forward.
  [[nodiscard]] constexpr std::size_t visit_of(std::size_t unit, std::size_t copy) const {
    return first_visit[unit] + copy;
  }
  /// The unit that visit `v` is to.
  [[nodiscard]] constexpr std::size_t unit_at(std::size_t v) const {
    std::size_t u = 0;
    while (first_visit[u + 1] <= v) ++u;
    return u;
  }
  /// Where the unit of visit `v` begins in the area.
  [[nodiscard]] constexpr std::size_t offset_at(std::size_t v) const {
    return v % 2 == 0 ? 0 : elements - size[unit_at(v)];
  }
};

/// The same for a stage of a plan.
template <class R, stage_kind Kind>
struct gathered_parameters {
  using parameters = stage_parameters<R, Kind>;

 private:
  static constexpr std::size_t unit_count = parameters::units.size();
  static constexpr std::size_t use_count = parameters::use_count;
  using element = typename R::element;
  struct arrays {
    std::array<std::size_t, use_count> value{};
    std::array<std::size_t, use_count> scratch{};
    std::array<std::size_t, unit_count> size{};
    std::array<std::size_t, unit_count + 1> first_visit{};
    std::size_t area = 0;
  };
  static constexpr arrays build() {
    arrays t{};
    std::size_t before = 0;  // the size of the visit before
    for (std::size_t u = 0; u < unit_count; ++u) {
      parameter_unit const& unit = parameters::units[u];
      std::size_t size = 0;
      for (std::size_t k = unit.first_use; k < unit.first_use + unit.uses; ++k) {
        redistribution const& path = parameters::entry[parameters::of_use[k]].gather;
        if (path.empty()) continue;
        t.value[k] = size;
        size += slot<element>(path.to_size);
        t.scratch[k] = size;
        size += slot<element>(redistribution_scratch(R::mesh::value, path));
      }
      t.size[u] = size;
      t.first_visit[u + 1] = t.first_visit[u] + unit.copies;
      t.area = detail::larger(t.area, before + size);
      if (unit.copies > 1) t.area = detail::larger(t.area, 2 * size);
      before = size;
    }
    return t;
  }
  static constexpr arrays built = build();

 public:
  static constexpr gathering_table table = {{parameters::units.data(), unit_count},     {built.value.data(), use_count},
                                            {built.scratch.data(), use_count},          {built.size.data(), unit_count},
                                            {built.first_visit.data(), unit_count + 1}, built.area};
  static constexpr std::size_t elements = built.area;
};

}  // namespace heddle
