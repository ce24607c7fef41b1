// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <heddle/pipeline/action.hpp>
#include <heddle/pipeline/proof.hpp>
#include <heddle/pipeline/schedule_concepts.hpp>
#include <heddle/pipeline/simulation.hpp>
#include <heddle/pipeline/slots.hpp>
#include <heddle/pipeline/stage_position.hpp>

namespace heddle::schedules {

/// A list of at most `Capacity` actions.
template <std::size_t Capacity>
struct program {
  action items[Capacity] = {};
  std::size_t size = 0;

  [[nodiscard]] constexpr std::span<action const> actions() const { return {items, size}; }
};

namespace detail {

// One more than the longest sound program: what a schedule emits beyond is a fault that shows within it.
template <class S, std::size_t MicroBatches>
inline constexpr std::size_t capacity_of = 3 + 7 * (MicroBatches * chunks_of<S>);

template <class S, std::size_t Stages, std::size_t MicroBatches>
constexpr program<capacity_of<S, MicroBatches>> write_program(std::size_t stage) {
  program<capacity_of<S, MicroBatches>> result{};
  program_order all{result.items, capacity_of<S, MicroBatches>};
  if constexpr (WritesProgram<S>) {
    S::program(stage, Stages, MicroBatches, all);
  } else {
    compute_order order{all, stage_position{stage, Stages, chunks_of<S>}};
    S::order(stage, Stages, MicroBatches, order);
    all.emit(action_kind::reduce_gradients);
    all.emit(action_kind::step);
  }
  result.size = all.size();
  return result;
}

// A template for each stage, so that each is a constant expression of its own.
template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t Stage>
struct stage_program {
  static constexpr auto program = write_program<S, Stages, MicroBatches>(Stage);

  static constexpr proof::fault find_fault() {
    if (proof::fault const f = proof::micro_batch_fault<MicroBatches, chunks_of<S>>(program.actions(), Stage, Stages))
      return f;
    return proof::completion_fault(program.actions(), Stage);
  }
  static constexpr proof::fault fault = find_fault();
};

template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t Stage>
struct stage_slots {
  static constexpr auto table = assign_slots<capacity_of<S, MicroBatches>, MicroBatches, chunks_of<S>>(
      stage_program<S, Stages, MicroBatches, Stage>::program.actions(), stage_position{Stage, Stages, chunks_of<S>});
};

// The two channels from stage Stage.
template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t Stage>
struct stage_channels {
  static constexpr stage_position at{Stage, Stages, chunks_of<S>};
  template <std::size_t N>
  using program_of = stage_program<S, Stages, MicroBatches, N>;

  static constexpr proof::fault find_fault() {
    if (proof::fault const f =
            proof::channel_fault(program_of<Stage>::program.actions(), program_of<at.next()>::program.actions(),
                                 action_kind::send_activation, at))
      return f;
    return proof::channel_fault(program_of<Stage>::program.actions(), program_of<at.previous()>::program.actions(),
                                action_kind::send_gradient, at);
  }
  static constexpr proof::fault fault = find_fault();
};

template <class S, std::size_t Stages, std::size_t MicroBatches, class Indices = std::make_index_sequence<Stages>>
struct all_stages;
template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t... Stage>
struct all_stages<S, Stages, MicroBatches, std::index_sequence<Stage...>> {
  static constexpr proof::fault local_faults[Stages] = {stage_program<S, Stages, MicroBatches, Stage>::fault...};
  static constexpr std::span<action const> actions[Stages] = {
      stage_program<S, Stages, MicroBatches, Stage>::program.actions()...};
};
// Only for programs whose stages are each sound.
template <class S, std::size_t Stages, std::size_t MicroBatches, class Indices = std::make_index_sequence<Stages>>
struct all_channels;
template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t... Stage>
struct all_channels<S, Stages, MicroBatches, std::index_sequence<Stage...>> {
  static constexpr proof::fault faults[Stages] = {stage_channels<S, Stages, MicroBatches, Stage>::fault...};
  static constexpr std::size_t peaks[Stages] = {stage_slots<S, Stages, MicroBatches, Stage>::table.peak...};
  static constexpr std::uint32_t const* slots[Stages] = {stage_slots<S, Stages, MicroBatches, Stage>::table.slot...};
  static constexpr std::uint32_t const* waits[Stages] = {stage_slots<S, Stages, MicroBatches, Stage>::table.waits...};
  static constexpr stage_view views[Stages] = {
      {stage_program<S, Stages, MicroBatches, Stage>::program.items,
       stage_slots<S, Stages, MicroBatches, Stage>::table.waits,
       static_cast<std::uint32_t>(stage_program<S, Stages, MicroBatches, Stage>::program.size)}...};
  static constexpr std::size_t total_actions = (stage_program<S, Stages, MicroBatches, Stage>::program.size + ...);
};

// Actions simulated in one constant expression: about a quarter of what clang allows by default.
inline constexpr std::size_t actions_a_link = 4096;

template <class S, std::size_t Stages, std::size_t MicroBatches, std::size_t Link>
struct simulated {
  static constexpr progress<Stages> state = advance(simulated<S, Stages, MicroBatches, Link - 1>::state,
                                                    all_channels<S, Stages, MicroBatches>::views, actions_a_link);
};
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct simulated<S, Stages, MicroBatches, 0> {
  static constexpr progress<Stages> state{};
};

template <std::size_t Stages>
constexpr proof::fault first_of(proof::fault const (&faults)[Stages]) {
  for (std::size_t s = 0; s < Stages; ++s)
    if (faults[s]) return faults[s];
  return {};
}

template <std::size_t Stages>
constexpr proof::fault deadlock_of(progress<Stages> const& end, stage_view const* views) {
  for (std::size_t s = 0; s < Stages; ++s) {
    if (end.at[s] == views[s].size) continue;
    action const& a = views[s].actions[end.at[s]];
    return {proof::fault_kind::deadlock, s, a.micro_batch, a.chunk};
  }
  return {};
}

template <class S, std::size_t Stages, std::size_t MicroBatches>
constexpr proof::fault find_fault() {
  constexpr proof::fault local = first_of(all_stages<S, Stages, MicroBatches>::local_faults);
  if constexpr (static_cast<bool>(local)) {
    return local;
  } else {
    using channels = all_channels<S, Stages, MicroBatches>;
    constexpr proof::fault between = first_of(channels::faults);
    if constexpr (static_cast<bool>(between)) {
      return between;
    } else {
      constexpr std::size_t links = channels::total_actions / actions_a_link + 1;
      return deadlock_of(simulated<S, Stages, MicroBatches, links>::state, channels::views);
    }
  }
}

}  // namespace detail

/// The first fact that the schedule breaks with these sizes, or none. Never an error by itself: for planners and tests.
/// Expects Schedule<S>, both sizes at least 1, and accepts<S>(Stages, MicroBatches).
template <class S, std::size_t Stages, std::size_t MicroBatches>
inline constexpr proof::fault fault_of = detail::find_fault<S, Stages, MicroBatches>();

}  // namespace heddle::schedules

namespace heddle {

/// Whether the schedule can run with these sizes: a schedule, defined for them, without a fault. The question that a
/// search over plans asks; schedule_table demands the same, with a sentence for each way to fail.
template <class S, std::size_t Stages, std::size_t MicroBatches>
concept SoundSchedule = (Schedule<S> && Stages > 0 && MicroBatches > 0 && schedules::accepts<S>(Stages, MicroBatches) &&
                         !static_cast<bool>(schedules::fault_of<S, Stages, MicroBatches>));

}  // namespace heddle
