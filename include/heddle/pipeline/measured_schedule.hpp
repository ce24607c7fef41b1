// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <heddle/pipeline/fault_of.hpp>
#include <heddle/pipeline/simulation.hpp>
#include <heddle/pipeline/timeline.hpp>
#include <heddle/ratio.hpp>

namespace heddle::schedules {

/// What a schedule_table and a schedule_analysis know of a schedule as constants, found at run time: for planners,
/// where a schedule of many stages and micro-batches would keep the compiler busy for minutes.
struct measured_schedule {
  proof::fault fault{};                        ///< the first fact that the schedule breaks; then nothing else is filled
  std::vector<std::size_t> peak_in_flight{};   ///< by stage
  std::vector<std::size_t> gradients_ahead{};  ///< by stage: gradients received and not yet read, at most
  ratio bubble_of_total{0, 1};
};

namespace detail {

/// timed_progress with sizes that are known when it is made.
struct run_time_clocks {
  struct {
    std::vector<std::uint32_t> at, sent_activations, taken_activations, sent_gradients, taken_gradients;
  } steps;
  std::vector<std::uint64_t> clock, end;

  run_time_clocks(std::size_t stages, std::size_t actions)
      : steps{std::vector<std::uint32_t>(stages), std::vector<std::uint32_t>(stages),
              std::vector<std::uint32_t>(stages), std::vector<std::uint32_t>(stages),
              std::vector<std::uint32_t>(stages)},
        clock(stages),
        end(actions) {}
};

/// Calls f() into the heap: programs of many micro-batches are larger than a stack.
template <class F>
auto on_heap(F f) {
  using T = decltype(f());
  return std::unique_ptr<T const>(new T(f()));
}

}  // namespace detail

/// Writes, proves and simulates the schedule by the functions that do it at compile time.
/// **Laws** (tests/pipeline): equal to fault_of, schedule_table and schedule_analysis.
template <class S, std::size_t Stages, std::size_t MicroBatches>
measured_schedule measure_schedule(schedule_costs const& costs = {}) {
  constexpr std::size_t capacity = detail::capacity_of<S, MicroBatches>;
  constexpr std::size_t chunks = chunks_of<S>;
  measured_schedule result;
  std::vector<std::unique_ptr<program<capacity> const>> programs;
  for (std::size_t s = 0; s < Stages; ++s) {
    programs.push_back(detail::on_heap([&] { return detail::write_program<S, Stages, MicroBatches>(s); }));
    std::span<action const> const actions = programs[s]->actions();
    result.fault = proof::micro_batch_fault<MicroBatches, chunks>(actions, s, Stages);
    if (!result.fault) result.fault = proof::completion_fault(actions, s);
    if (result.fault) return result;
  }
  for (std::size_t s = 0; s < Stages; ++s) {
    stage_position const at{s, Stages, chunks};
    auto const mine = programs[s]->actions();
    result.fault = proof::channel_fault(mine, programs[at.next()]->actions(), action_kind::send_activation, at);
    if (!result.fault)
      result.fault = proof::channel_fault(mine, programs[at.previous()]->actions(), action_kind::send_gradient, at);
    if (result.fault) return result;
  }

  std::vector<std::unique_ptr<slot_table<capacity, MicroBatches, chunks> const>> slots;
  std::vector<std::unique_ptr<detail::transfer_places<MicroBatches * chunks> const>> places;
  std::vector<detail::stage_view> views;
  std::vector<detail::stage_transfers> transfers;
  std::size_t total = 0;
  std::uint64_t busy = 0;
  for (std::size_t s = 0; s < Stages; ++s) {
    auto const actions = programs[s]->actions();
    slots.push_back(detail::on_heap([&] {
      return assign_slots<capacity, MicroBatches, chunks>(actions, stage_position{s, Stages, chunks});
    }));
    places.push_back(
        detail::on_heap([&] { return detail::find_transfers<MicroBatches * chunks>(actions.data(), actions.size()); }));
    views.push_back({actions.data(), slots[s]->waits, static_cast<std::uint32_t>(actions.size())});
    transfers.push_back({total, places[s]->activation_sends, places[s]->activation_receives, places[s]->gradient_sends,
                         places[s]->gradient_receives});
    total += actions.size();
    std::size_t waiting = 0, most = 1;
    for (action const& a : actions) {
      busy += cost_of(a.kind, costs);
      if (a.kind == action_kind::receive_gradient && ++waiting > most) most = waiting;
      if (a.kind == action_kind::backward && waiting > 0) --waiting;
    }
    result.peak_in_flight.push_back(slots[s]->peak);
    result.gradients_ahead.push_back(most);
  }
  result.fault =
      detail::deadlock_of(detail::advance(detail::progress<Stages>{}, views.data(), total + 1), views.data());
  if (result.fault) return result;

  detail::run_time_clocks times(Stages, total);
  detail::run_clocks(times, Stages, views.data(), transfers.data(), costs, total + 1);
  std::uint64_t makespan = 0;
  for (std::uint64_t clock : times.clock) detail::raise_to(makespan, clock);
  result.bubble_of_total = {Stages * makespan - busy, Stages * makespan};
  return result;
}

}  // namespace heddle::schedules
