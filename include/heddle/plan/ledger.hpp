// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/pipeline/analysis.hpp>
#include <heddle/plan/legality.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/plan/stage_traffic.hpp>
#include <heddle/ratio.hpp>

namespace heddle {

/// Bytes, for comparisons with a ledger's.
inline constexpr std::size_t KiB = std::size_t{1} << 10;
inline constexpr std::size_t MiB = std::size_t{1} << 20;
inline constexpr std::size_t GiB = std::size_t{1} << 30;

/// A resolved plan's constants: parameters, memory, traffic, bubble. Memory is the arenas' own table, not an estimate
/// beside it.
template <class R>
struct basic_ledger {
  static_assert(sizeof(legal<R>) > 0);
  static constexpr std::size_t stages = stage_partition<R>::stages;
  /// Parameters of the model, each once.
  static constexpr std::size_t parameters = count_parameters<R>();
  /// Memory of every rank of a pipeline stage.
  static constexpr memory_table memory(std::size_t stage) { return memory_of_stage<R>(stage); }
  /// Bytes of the rank that needs most.
  static constexpr std::size_t peak_bytes = [] {
    std::size_t most = 0;
    for (std::size_t s = 0; s < stages; ++s) most = detail::larger(most, memory(s).total());
    return most;
  }();
  /// What the rank at these coordinates sends in one step.
  static constexpr traffic_table traffic(coordinates const& at) { return traffic_of_step<R>(at); }
  /// Idle share of the pipeline's total time, with forward : backward = 1 : 2 (GPipe's definition: (p−1)/(m+p−1)).
  static constexpr ratio bubble =
      schedules::schedule_analysis<typename R::plan::schedule, stages, R::plan::micro_batches>::bubble_of_total;
};

}  // namespace heddle
