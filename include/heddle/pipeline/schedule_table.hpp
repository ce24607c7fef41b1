// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include <heddle/pipeline/fault_of.hpp>

namespace heddle::schedules::detail {

// Names for the numbers in a compiler's message.
template <std::size_t>
struct at_stage;
template <std::size_t>
struct at_micro_batch;
template <std::size_t>
struct at_chunk;

template <class S, std::size_t Stages, std::size_t MicroBatches>
struct checked_sizes {
  static_assert(
      Schedule<S>,
      "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must be a Schedule; declare one static "
      "constexpr function, order(stage, stages, micro_batches, compute_order&) or program(..., program_order&)");
  static_assert(
      Stages > 0,
      "schedule_table<Schedule, Stages, MicroBatches>: 'Stages' must be at least 1; without a pipeline it is 1");
  static_assert(
      MicroBatches > 0,
      "schedule_table<Schedule, Stages, MicroBatches>: 'MicroBatches' must be at least 1; accumulate over one "
      "or more micro-batches");
  static constexpr bool value = Schedule<S> && Stages > 0 && MicroBatches > 0;
};

// The schedule's own sentence first, then ours.
template <class S, std::size_t Stages, std::size_t MicroBatches>
constexpr bool meets_requirements() {
  if constexpr (requires { typename S::template requirements<Stages, MicroBatches>; })
    return sizeof(typename S::template requirements<Stages, MicroBatches>) > 0;
  return true;
}
template <class S, std::size_t Stages, std::size_t MicroBatches, bool = checked_sizes<S, Stages, MicroBatches>::value>
struct checked_rule {
  static constexpr bool value = false;
};
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct checked_rule<S, Stages, MicroBatches, true> {
  static_assert(meets_requirements<S, Stages, MicroBatches>());
  static constexpr bool value = accepts<S>(Stages, MicroBatches);
  static_assert(
      value,
      "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must be defined for this number of stages "
      "and micro-batches (Schedule::accepts says it is not); change 'Stages', 'MicroBatches' or the schedule");
};

template <class S, std::size_t Stages, std::size_t MicroBatches, proof::fault_kind Kind, class Stage, class MicroBatch,
          class Chunk>
struct verdict {
  using kind = proof::fault_kind;
  static_assert(Kind != kind::out_of_range,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must name micro-batches below MicroBatches "
                "and chunks below Schedule::chunks; drop the action at the place named here");
  static_assert(Kind != kind::forward_not_once,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must run the forward of every micro-batch "
                "exactly once per stage; emit the one named here once");
  static_assert(Kind != kind::backward_not_once,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must run the backward of every micro-batch "
                "exactly once per stage, whole or as both its parts; emit the one named here once");
  static_assert(Kind != kind::backward_before_forward,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must run each backward after its forward; "
                "move the one named here");
  static_assert(Kind != kind::weight_before_input,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must run each backward_weight after its "
                "backward_input; move the one named here");
  static_assert(Kind != kind::transfer_without_peer,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must not receive activations for the first "
                "layers nor gradients for the last, nor send them there; drop the transfer named here");
  static_assert(Kind != kind::transfer_not_once,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must send and receive each activation and "
                "each gradient exactly once; emit the transfers of the micro-batch named here once");
  static_assert(Kind != kind::computed_before_received,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must receive what a forward or backward "
                "needs before it; move the one named here");
  static_assert(
      Kind != kind::sent_before_computed,
      "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must compute what it sends before the send; "
      "move the one named here");
  static_assert(Kind != kind::reduction_not_once,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must reduce gradients exactly once per "
                "stage; emit one reduce_gradients on the stage named here");
  static_assert(
      Kind != kind::reduction_too_early,
      "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must reduce gradients after the last weight "
      "gradient; move reduce_gradients behind the micro-batch named here");
  static_assert(
      Kind != kind::step_not_once_at_end,
      "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must step exactly once, as the last action, "
      "after the reduction; end the program of the stage named here with one step");
  static_assert(Kind != kind::order_mismatch,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must send and receive in the same order on "
                "both sides; let the peer of the stage named here work in the order in which that stage sends");
  static_assert(Kind != kind::deadlock,
                "schedule_table<Schedule, Stages, MicroBatches>: 'Schedule' must not let stages wait for each other; "
                "move what the stage named here waits for, on its neighbour, before what that neighbour waits for");
  static constexpr bool sound = Kind == kind::none;
};

template <class S, std::size_t Stages, std::size_t MicroBatches>
using verdict_of = verdict<
    S, Stages, MicroBatches, fault_of<S, Stages, MicroBatches>.kind, at_stage<fault_of<S, Stages, MicroBatches>.stage>,
    at_micro_batch<fault_of<S, Stages, MicroBatches>.micro_batch>, at_chunk<fault_of<S, Stages, MicroBatches>.chunk>>;

// Empty where the schedule was refused, so that the sentence above is the first and nearly the only error.
template <class S, std::size_t Stages, std::size_t MicroBatches, bool = checked_rule<S, Stages, MicroBatches>::value>
struct proved {
  static constexpr bool value = false;
};
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct proved<S, Stages, MicroBatches, true> {
  static constexpr bool value = verdict_of<S, Stages, MicroBatches>::sound;
};

template <class S, std::size_t Stages, std::size_t MicroBatches, bool = proved<S, Stages, MicroBatches>::value>
struct table_data {};
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct table_data<S, Stages, MicroBatches, true> {
 private:
  using programs = all_stages<S, Stages, MicroBatches>;
  using buffers = all_channels<S, Stages, MicroBatches>;

 public:
  static constexpr std::size_t stages = Stages;
  static constexpr std::size_t micro_batches = MicroBatches;
  static constexpr std::size_t chunks = chunks_of<S>;
  static constexpr std::size_t total_actions = buffers::total_actions;

  /// Which layers a stage holds, and who its neighbours are.
  [[nodiscard]] static constexpr stage_position position(std::size_t stage) { return {stage, Stages, chunks}; }

  /// The program of one stage, complete: compute, transfers, reduction, step.
  [[nodiscard]] static constexpr std::span<action const> actions(std::size_t stage) { return programs::actions[stage]; }

  /// Micro-batches (of any chunk) whose activations a stage holds at once, at most: the number of its slots.
  [[nodiscard]] static constexpr std::size_t peak_in_flight(std::size_t stage) { return buffers::peaks[stage]; }

  /// Where a stage keeps a micro-batch's saved activations and send buffers: below peak_in_flight(stage), and never the
  /// slot of another micro-batch in flight.
  [[nodiscard]] static constexpr std::size_t slot_of(std::size_t stage, std::size_t micro_batch,
                                                     std::size_t chunk = 0) {
    return buffers::slots[stage][chunk * MicroBatches + micro_batch];
  }

  /// Sends that the peer must have taken before action `index` may overwrite its slot's send buffer, counted from the
  /// start of the program: of activations for a forward, of gradients for a backward; 0 for every other action.
  [[nodiscard]] static constexpr std::size_t sends_taken_before(std::size_t stage, std::size_t index) {
    return buffers::waits[stage][index];
  }
};

}  // namespace heddle::schedules::detail

namespace heddle::schedules {

/// A schedule for given sizes: one program per stage, proved at compile time to obey the laws of Schedule and the
/// execution model of simulation.hpp. One table per (schedule, stages, micro-batches), however many ranks use it.
///
/// **Errors.** A schedule that breaks a law does not compile; the message names the law, and its instantiation line the
/// stage, micro-batch and chunk. fault_of asks without an error.
///
/// **Cost.** Linear in stages · micro-batches · chunks, in several constant expressions, each within the compilers'
/// default limits.
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct schedule_table : detail::table_data<S, Stages, MicroBatches> {};

}  // namespace heddle::schedules
