// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include <heddle/pipeline/timeline.hpp>
#include <heddle/ratio.hpp>

namespace heddle::schedules {

/// What a schedule costs in time, found by simulation with the given costs. Two definitions of the bubble are in use
/// and differ; each has its own name here, and nothing is called just "bubble".
template <class S, std::size_t Stages, std::size_t MicroBatches, schedule_costs Costs = schedule_costs{}>
struct schedule_analysis {
 private:
  using table = schedule_table<S, Stages, MicroBatches>;
  static constexpr std::uint64_t latest() {
    std::uint64_t end = 0;
    for (std::size_t s = 0; s < Stages; ++s)
      detail::raise_to(end, detail::times_of<S, Stages, MicroBatches, Costs>.clock[s]);
    return end;
  }
  static constexpr std::uint64_t sum_of_costs() {
    std::uint64_t sum = 0;
    for (std::size_t s = 0; s < Stages; ++s) {
      action const* const actions = table::actions(s).data();
      for (std::size_t i = 0, size = table::actions(s).size(); i < size; ++i) sum += cost_of(actions[i].kind, Costs);
    }
    return sum;
  }

 public:
  /// From the first forward to the last backward of any stage.
  static constexpr std::uint64_t makespan = latest();
  /// Time spent computing, all stages together.
  static constexpr std::uint64_t busy = sum_of_costs();
  /// Idle time as a share of all time, `stages · makespan`: GPipe's definition, (p-1)/(m+p-1) for GPipe and 1F1B.
  static constexpr ratio bubble_of_total{Stages * makespan - busy, Stages* makespan};
  /// Idle time over computing time: PTD-P's definition, (p-1)/m for GPipe and 1F1B.
  static constexpr ratio bubble_of_ideal{Stages * makespan - busy, busy};
};

/// The bubble of a schedule that fills and drains once, GPipe or 1F1B, as a share of total time (GPipe, arXiv
/// 1811.06965 §2.3). For sizes too many to simulate; equal to the simulated one.
[[nodiscard]] constexpr ratio flush_bubble_of_total(std::size_t stages, std::size_t micro_batches) {
  return {stages - 1, micro_batches + stages - 1};
}
/// The same over ideal time (PTD-P, arXiv 2104.04473 §2.2.1).
[[nodiscard]] constexpr ratio flush_bubble_of_ideal(std::size_t stages, std::size_t micro_batches) {
  return {stages - 1, micro_batches};
}

}  // namespace heddle::schedules
