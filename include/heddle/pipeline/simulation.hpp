// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include <heddle/pipeline/action.hpp>
#include <heddle/pipeline/stage_position.hpp>

/// The execution model, run at compile time.
///
/// - A stage runs its actions in order. Between two neighbours there is one channel for activations and one for
///   gradients; each delivers in order.
/// - A send starts and does not wait; it is complete when the peer takes it.
/// - A receive waits until the matching send was started, then takes it.
/// - A compute action that fills a send buffer waits until the sends that used the buffer before are complete
///   (slot_table::waits).
/// - Computing takes the given cost; a transfer takes `transfer` from the moment of the send; all else
///   takes no time.
namespace heddle::schedules {

/// Costs in any common unit. The default counts a backward as two forwards, as the papers do.
struct schedule_costs {
  std::uint32_t forward = 1;
  std::uint32_t backward = 2;
  std::uint32_t backward_input = 1;
  std::uint32_t backward_weight = 1;
  std::uint32_t transfer = 0;

  friend constexpr bool operator==(schedule_costs const&, schedule_costs const&) = default;
};

/// What the computation of one action takes; 0 for all that is not computation.
[[nodiscard]] constexpr std::uint32_t cost_of(action_kind kind, schedule_costs const& costs) {
  switch (kind) {
    case action_kind::forward:
      return costs.forward;
    case action_kind::backward:
      return costs.backward;
    case action_kind::backward_input:
      return costs.backward_input;
    case action_kind::backward_weight:
      return costs.backward_weight;
    default:
      return 0;
  }
}

namespace detail {

/// One stage as the simulation reads it.
struct stage_view {
  action const* actions = nullptr;
  std::uint32_t const* waits = nullptr;
  std::uint32_t size = 0;
};

/// How far each stage has come. A constant of its own between two runs of `advance`, so that a long program is
/// simulated in several constant expressions, each within the compilers' default limits.
template <std::size_t Stages>
struct progress {
  std::uint32_t at[Stages] = {};
  std::uint32_t sent_activations[Stages] = {};   // by sender
  std::uint32_t taken_activations[Stages] = {};  // by sender
  std::uint32_t sent_gradients[Stages] = {};
  std::uint32_t taken_gradients[Stages] = {};
  bool stuck = false;
};

/// Runs up to `budget` actions. Sweeps over the stages, forth (activations travel) and back (gradients travel); a sweep
/// without progress means that all stages have ended or wait for each other.
template <std::size_t Stages>
constexpr progress<Stages> advance(progress<Stages> p, stage_view const* views, std::size_t budget) {
  bool back = false;
  while (!p.stuck && budget > 0) {
    std::size_t const budget_before = budget;
    for (std::size_t n = 0; n < Stages; ++n) {
      std::size_t const s = back ? Stages - 1 - n : n;
      std::size_t const previous = s == 0 ? Stages - 1 : s - 1;
      std::size_t const next = s + 1 == Stages ? 0 : s + 1;
      action const* const actions = views[s].actions;
      std::uint32_t const size = views[s].size;
      std::uint32_t i = p.at[s];
      while (i < size && budget > 0) {
        action_kind const kind = actions[i].kind;
        if (kind == action_kind::forward) {
          if (p.taken_activations[s] < views[s].waits[i]) break;
        } else if (kind == action_kind::backward || kind == action_kind::backward_input) {
          if (p.taken_gradients[s] < views[s].waits[i]) break;
        } else if (kind == action_kind::receive_activation) {
          if (p.taken_activations[previous] == p.sent_activations[previous]) break;
          ++p.taken_activations[previous];
        } else if (kind == action_kind::receive_gradient) {
          if (p.taken_gradients[next] == p.sent_gradients[next]) break;
          ++p.taken_gradients[next];
        } else if (kind == action_kind::send_activation) {
          ++p.sent_activations[s];
        } else if (kind == action_kind::send_gradient) {
          ++p.sent_gradients[s];
        }
        ++i;
        --budget;
      }
      p.at[s] = i;
    }
    p.stuck = budget == budget_before;
    back = !back;
  }
  return p;
}

/// The same, with clocks: when each action ends, by its place in the concatenated programs.
template <std::size_t Stages, std::size_t Actions>
struct timed_progress {
  progress<Stages> steps{};
  std::uint64_t clock[Stages] = {};
  std::uint64_t end[Actions] = {};
};

/// What the clocks need to know of a stage beyond its view: where its actions stand in the concatenation, and where in
/// its program the n-th send and receive of each kind stand.
struct stage_transfers {
  std::size_t offset = 0;
  std::uint32_t const* activation_sends = nullptr;
  std::uint32_t const* activation_receives = nullptr;
  std::uint32_t const* gradient_sends = nullptr;
  std::uint32_t const* gradient_receives = nullptr;
};

constexpr void raise_to(std::uint64_t& clock, std::uint64_t at) {
  if (clock < at) clock = at;
}

/// Runs up to `budget` actions of `stages` stages with clocks. `Times` has the members of timed_progress, of any size.
/// For programs without a fault: there each sweep makes progress until all stages have ended.
template <class Times>
constexpr void run_clocks(Times& t, std::size_t stages, stage_view const* views, stage_transfers const* transfers,
                          schedule_costs costs, std::size_t budget) {
  auto& p = t.steps;
  std::size_t ended = 0;
  bool back = false;
  while (budget > 0 && ended < stages) {
    ended = 0;
    for (std::size_t n = 0; n < stages; ++n) {
      std::size_t const s = back ? stages - 1 - n : n;
      std::size_t const previous = s == 0 ? stages - 1 : s - 1;
      std::size_t const next = s + 1 == stages ? 0 : s + 1;
      std::uint32_t const size = views[s].size;
      std::uint32_t i = p.at[s];
      std::uint64_t clock = t.clock[s];
      while (i < size && budget > 0) {
        action_kind const kind = views[s].actions[i].kind;
        std::uint32_t const wait = views[s].waits[i];
        if (kind == action_kind::forward) {
          if (p.taken_activations[s] < wait) break;
          if (wait > 0) raise_to(clock, t.end[transfers[next].offset + transfers[next].activation_receives[wait - 1]]);
        } else if (kind == action_kind::backward || kind == action_kind::backward_input) {
          if (p.taken_gradients[s] < wait) break;
          if (wait > 0)
            raise_to(clock, t.end[transfers[previous].offset + transfers[previous].gradient_receives[wait - 1]]);
        } else if (kind == action_kind::receive_activation) {
          std::uint32_t const nth = p.taken_activations[previous];
          if (nth == p.sent_activations[previous]) break;
          ++p.taken_activations[previous];
          raise_to(clock,
                   t.end[transfers[previous].offset + transfers[previous].activation_sends[nth]] + costs.transfer);
        } else if (kind == action_kind::receive_gradient) {
          std::uint32_t const nth = p.taken_gradients[next];
          if (nth == p.sent_gradients[next]) break;
          ++p.taken_gradients[next];
          raise_to(clock, t.end[transfers[next].offset + transfers[next].gradient_sends[nth]] + costs.transfer);
        } else if (kind == action_kind::send_activation) {
          ++p.sent_activations[s];
        } else if (kind == action_kind::send_gradient) {
          ++p.sent_gradients[s];
        }
        clock += cost_of(kind, costs);
        t.end[transfers[s].offset + i] = clock;
        ++i;
        --budget;
      }
      p.at[s] = i;
      t.clock[s] = clock;
      if (i == size) ++ended;
    }
    back = !back;
  }
}

template <std::size_t Stages, std::size_t Actions>
constexpr timed_progress<Stages, Actions> advance_timed(timed_progress<Stages, Actions> t, stage_view const* views,
                                                        stage_transfers const* transfers, schedule_costs costs,
                                                        std::size_t budget) {
  run_clocks(t, Stages, views, transfers, costs, budget);
  return t;
}

}  // namespace detail

}  // namespace heddle::schedules
