// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <heddle/pipeline/fault_of.hpp>
#include <heddle/pipeline/schedule_table.hpp>
#include <heddle/pipeline/simulation.hpp>

namespace heddle::schedules {

/// One compute action and when it runs, in the unit of the costs, from the start of the step.
struct timed_action {
  action what{};
  std::uint64_t start = 0;
  std::uint64_t end = 0;

  friend constexpr bool operator==(timed_action const&, timed_action const&) = default;
};

namespace detail {

// Where the n-th transfers of one stage stand in its program.
template <std::size_t Units>
struct transfer_places {
  std::uint32_t activation_sends[Units] = {};
  std::uint32_t activation_receives[Units] = {};
  std::uint32_t gradient_sends[Units] = {};
  std::uint32_t gradient_receives[Units] = {};
};

template <std::size_t Units>
constexpr transfer_places<Units> find_transfers(action const* actions, std::size_t size) {
  transfer_places<Units> places{};
  std::size_t as = 0;
  std::size_t ar = 0;
  std::size_t gs = 0;
  std::size_t gr = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    switch (actions[i].kind) {
      case action_kind::send_activation:
        places.activation_sends[as++] = i;
        break;
      case action_kind::receive_activation:
        places.activation_receives[ar++] = i;
        break;
      case action_kind::send_gradient:
        places.gradient_sends[gs++] = i;
        break;
      case action_kind::receive_gradient:
        places.gradient_receives[gr++] = i;
        break;
      default:
        break;
    }
  }
  return places;
}

template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t Stage>
struct stage_transfers_of {
  static constexpr auto places =
      find_transfers<MicroBatches * chunks_of<S>>(stage_program<S, Stages, MicroBatches, Stage>::program.items,
                                                  stage_program<S, Stages, MicroBatches, Stage>::program.size);
};

template <class S, std::size_t Stages, std::size_t MicroBatches, class Indices = std::make_index_sequence<Stages>>
struct all_transfers;
template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t... Stage>
struct all_transfers<S, Stages, MicroBatches, std::index_sequence<Stage...>> {
  struct offsets {
    std::size_t of[Stages + 1] = {};
  };
  static constexpr offsets sum_up() {
    offsets sum{};
    for (std::size_t s = 0; s < Stages; ++s)
      sum.of[s + 1] = sum.of[s] + schedule_table<S, Stages, MicroBatches>::actions(s).size();
    return sum;
  }
  static constexpr offsets starts = sum_up();
  static constexpr stage_transfers transfers[Stages] = {
      {starts.of[Stage], stage_transfers_of<S, Stages, MicroBatches, Stage>::places.activation_sends,
       stage_transfers_of<S, Stages, MicroBatches, Stage>::places.activation_receives,
       stage_transfers_of<S, Stages, MicroBatches, Stage>::places.gradient_sends,
       stage_transfers_of<S, Stages, MicroBatches, Stage>::places.gradient_receives}...};
};

template <class S, std::size_t Stages, std::size_t MicroBatches, schedule_costs Costs, std::size_t Link>
struct timed {
  static constexpr auto state = advance_timed(timed<S, Stages, MicroBatches, Costs, Link - 1>::state,
                                              all_channels<S, Stages, MicroBatches>::views,
                                              all_transfers<S, Stages, MicroBatches>::transfers, Costs, actions_a_link);
};
template <class S, std::size_t Stages, std::size_t MicroBatches, schedule_costs Costs>
struct timed<S, Stages, MicroBatches, Costs, 0> {
  static constexpr timed_progress<Stages, schedule_table<S, Stages, MicroBatches>::total_actions> state{};
};
template <class S, std::size_t Stages, std::size_t MicroBatches, schedule_costs Costs>
inline constexpr auto const& times_of =
    timed<S, Stages, MicroBatches, Costs,
          schedule_table<S, Stages, MicroBatches>::total_actions / actions_a_link + 1>::state;

template <class S, std::size_t Stages, std::size_t MicroBatches, schedule_costs Costs>
struct timeline_data {
  using table = schedule_table<S, Stages, MicroBatches>;
  // A stage computes each unit at most three times: forward and a backward in two parts.
  static constexpr std::size_t capacity = 3 * MicroBatches * chunks_of<S>;
  struct rows {
    timed_action items[Stages][capacity] = {};
    std::size_t size[Stages] = {};
  };
  static constexpr rows fill() {
    rows result{};
    for (std::size_t s = 0; s < Stages; ++s) {
      std::uint64_t const* const end =
          times_of<S, Stages, MicroBatches, Costs>.end + all_transfers<S, Stages, MicroBatches>::starts.of[s];
      action const* const actions = table::actions(s).data();
      for (std::size_t i = 0, size = table::actions(s).size(); i < size; ++i)
        if (is_compute(actions[i].kind))
          result.items[s][result.size[s]++] = {actions[i], end[i] - cost_of(actions[i].kind, Costs), end[i]};
    }
    return result;
  }
  static constexpr rows data = fill();
};

}  // namespace detail

/// When each stage computes what, under the execution model of simulation.hpp with the given costs.
template <class S, std::size_t Stages, std::size_t MicroBatches, schedule_costs Costs = schedule_costs{}>
struct timeline {
  /// The compute actions of one stage, in order of time.
  [[nodiscard]] static constexpr std::span<timed_action const> stage(std::size_t s) {
    auto const& rows = detail::timeline_data<S, Stages, MicroBatches, Costs>::data;
    return {rows.items[s], rows.size[s]};
  }
};

}  // namespace heddle::schedules
