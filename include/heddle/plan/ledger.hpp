// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/bytes.hpp>
#include <heddle/pipeline/analysis.hpp>
#include <heddle/plan/legality.hpp>
#include <heddle/plan/memory_limit.hpp>
#include <heddle/plan/memory_rows.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/plan/stage_traffic.hpp>
#include <heddle/ratio.hpp>

namespace heddle {

/// A resolved plan's constants: parameters, memory, traffic, bubble. Memory is the arenas' own table, not an estimate
/// beside it.
template <class R>
struct basic_ledger {
  static_assert(sizeof(legal<R>) > 0);
  static constexpr std::size_t stages = stage_partition<R>::stages;
  /// Parameters of the model, each once.
  static constexpr std::size_t parameters = count_parameters<R>();
  /// Those that are trained: all but those within `frozen`.
  static constexpr std::size_t trained_parameters = count_all_parameters<R>().trained;
  /// Memory of every rank of a pipeline stage.
  static constexpr memory_table memory(std::size_t stage) { return memory_of_stage<R>(stage); }
  /// The same, line by line: each optimizer slot, each kind of activation with its lifetime, and element types.
  static constexpr auto rows(std::size_t stage) { return memory_rows_of_stage<R>(stage); }
  /// Bytes of the rank that needs most.
  static constexpr std::size_t peak_bytes = memory_of_stage<R>(fullest_stage<R>).total();
  static_assert(within_memory<R>::value);
  /// What the rank at these coordinates sends in one step.
  static constexpr traffic_table traffic(coordinates const& at) { return traffic_of_step<R>(at); }
  /// Idle share of the pipeline's total time, with forward : backward = 1 : 2 (GPipe's definition: (p−1)/(m+p−1)).
  static constexpr ratio bubble =
      schedules::schedule_analysis<typename R::plan::schedule, stages, R::plan::micro_batches>::bubble_of_total;
};

}  // namespace heddle
