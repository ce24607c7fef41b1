// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/detail/array_view.hpp>
#include <heddle/plan/gathered_parameters.hpp>
#include <heddle/plan/gradient_buckets.hpp>
#include <heddle/plan/parameters.hpp>
#include <heddle/plan/shared_parameters.hpp>

namespace heddle {

/// The parameters of a pipeline stage as values: the constants of `stage_parameters` and of what is derived from them.
/// Code that reads these is compiled once, not again for each plan and stage.
struct parameter_table {
  detail::array_view<parameter_entry> entry;
  detail::array_view<std::size_t> of_use;  ///< which entry each use reads
  detail::array_view<parameter_unit> units;
  bool reduces_at_once = false;
  /// Of each use, where its gradient lies in the window, if there is one.
  detail::array_view<std::size_t> window_offset;
  // Elements of the arenas.
  std::size_t elements = 0;
  std::size_t window_elements = 0;
  std::size_t gradient_elements = 0;
  std::size_t reduced_elements = 0;
  std::size_t state_elements = 0;  ///< of one slot
  std::size_t update_piece = 0;    ///< of an update's scratch, at its beginning: a piece of a gradient, widened
  gathering_table gathering;
  bucket_table buckets;
  // The pipeline.
  std::size_t pipeline_axis = 0;  ///< of the mesh; its number of axes where there is none
  std::size_t stages = 1;
  /// Entries that the pipeline's other end has too, in the order in which the first stage declares them: both ends
  /// reduce them one by one, over a process group of the two.
  detail::array_view<std::size_t> shared;
  bool holds_second_copies = false;  ///< of those that are shared: they count on the first stage

  /// Whether anything is to be done between modules: else they need not ask.
  [[nodiscard]] constexpr bool serves() const {
    return gathering.elements != 0 || window_elements != 0 || gradient_elements != 0;
  }
  /// Whether entry n counts on another stage.
  [[nodiscard]] constexpr bool is_second_copy(std::size_t n) const {
    if (holds_second_copies)
      for (std::size_t const k : shared)
        if (k == n) return true;
    return false;
  }
};

/// The table of a stage of a plan.
template <class R, stage_kind Kind>
struct parameter_table_of {
 private:
  using parameters = stage_parameters<R, Kind>;
  using partition = stage_partition<R>;
  static constexpr bool is_end = Kind == stage_kind::first || Kind == stage_kind::last;
  static constexpr std::size_t shared_count = is_end ? shared_parameters<R>::count : 0;
  static constexpr std::array<std::size_t, shared_count + 1> shared = [] {
    std::array<std::size_t, shared_count + 1> s{};
    if constexpr (shared_count != 0) {
      using first = stage_parameters<R, stage_kind::first>;
      std::size_t found = 0;
      for (std::size_t n = 0; n < first::count; ++n)
        if (shared_parameters<R>::template is_shared<stage_kind::first>(n))
          s[found++] = parameters::find(first::entry[n].id);
    }
    return s;
  }();

 public:
  static constexpr parameter_table value = {
      parameters::entry,
      {parameters::of_use.data(), parameters::use_count},
      {parameters::units.data(), parameters::units.size()},
      parameters::reduces_at_once,
      {parameters::window_offset.data(), parameters::use_count},
      parameters::elements,
      parameters::window_elements,
      parameters::gradient_elements,
      parameters::reduced_elements,
      parameters::state_elements,
      detail::update_piece_room<R>,
      gathered_parameters<R, Kind>::table,
      gradient_buckets<R, Kind>::table,
      partition::axis,
      partition::stages,
      {shared.data(), shared_count},
      Kind == stage_kind::last,
  };
};

}  // namespace heddle
