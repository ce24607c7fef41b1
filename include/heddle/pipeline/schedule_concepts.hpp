// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>

#include <heddle/pipeline/action.hpp>
#include <heddle/pipeline/stage_position.hpp>

namespace heddle::schedules {

/// Where a schedule writes a whole program, action by action. Stores what fits and counts the rest, so that a runaway
/// schedule is found by the proof instead of ending the compilation with a memory error.
class program_order {
 public:
  constexpr program_order(action* storage, std::size_t capacity) : storage_(storage), capacity_(capacity) {}

  constexpr void emit(action_kind kind, std::size_t micro_batch = 0, std::size_t chunk = 0) {
    if (size_ < capacity_) storage_[size_] = action{kind, clamp(micro_batch), clamp(chunk)};
    ++size_;
  }
  [[nodiscard]] constexpr std::size_t size() const { return size_ < capacity_ ? size_ : capacity_; }

 private:
  // A number too large for an action must stay too large: the proof then names it, where a cast would wrap it around.
  static constexpr std::uint32_t clamp(std::size_t n) {
    return n < UINT32_MAX ? static_cast<std::uint32_t>(n) : UINT32_MAX;
  }
  action* storage_;
  std::size_t capacity_;
  std::size_t size_ = 0;
};

/// Where a schedule writes the order in which one stage computes; the transfers are derived: each forward receives its
/// input just before and sends its output just after, each backward likewise with gradients, and only the part of a
/// split backward that makes the input's gradient takes part in it.
class compute_order {
 public:
  constexpr compute_order(program_order& program, stage_position at) : program_(&program), at_(at) {}

  constexpr void forward(std::size_t micro_batch, std::size_t chunk = 0) {
    if (at_.has_peer_before(chunk)) program_->emit(action_kind::receive_activation, micro_batch, chunk);
    program_->emit(action_kind::forward, micro_batch, chunk);
    if (at_.has_peer_after(chunk)) program_->emit(action_kind::send_activation, micro_batch, chunk);
  }
  constexpr void backward(std::size_t micro_batch, std::size_t chunk = 0) {
    input_gradient(action_kind::backward, micro_batch, chunk);
  }
  constexpr void backward_input(std::size_t micro_batch, std::size_t chunk = 0) {
    input_gradient(action_kind::backward_input, micro_batch, chunk);
  }
  constexpr void backward_weight(std::size_t micro_batch, std::size_t chunk = 0) {
    program_->emit(action_kind::backward_weight, micro_batch, chunk);
  }

 private:
  constexpr void input_gradient(action_kind kind, std::size_t micro_batch, std::size_t chunk) {
    if (at_.has_peer_after(chunk)) program_->emit(action_kind::receive_gradient, micro_batch, chunk);
    program_->emit(kind, micro_batch, chunk);
    if (at_.has_peer_before(chunk)) program_->emit(action_kind::send_gradient, micro_batch, chunk);
  }
  program_order* program_;
  stage_position at_;
};

/// Chunks per stage: `Schedule::chunks` where the schedule declares it, else 1.
template <class Schedule>
inline constexpr std::size_t chunks_of = 1;
template <class Schedule>
requires requires { Schedule::chunks; }
inline constexpr std::size_t chunks_of<Schedule> = Schedule::chunks;

/// Whether the schedule is defined for these sizes: `Schedule::accepts(stages, micro_batches)` where it declares that,
/// else true.
template <class Schedule>
[[nodiscard]] constexpr bool accepts(std::size_t stages, std::size_t micro_batches) {
  if constexpr (requires { Schedule::accepts(stages, micro_batches); }) {
    return Schedule::accepts(stages, micro_batches);
  } else {
    return true;
  }
}

namespace detail {

template <class S>
concept WritesComputeOrder = requires(std::size_t n, compute_order& out) {
  { S::order(n, n, n, out) } -> std::same_as<void>;
};
template <class S>
concept WritesProgram = requires(std::size_t n, program_order& out) {
  { S::program(n, n, n, out) } -> std::same_as<void>;
};

}  // namespace detail

}  // namespace heddle::schedules

namespace heddle {

/// A pipeline schedule: a type that says, at compile time, in which order each stage works through the micro-batches.
///
/// **Minimal complete definition.** One static constexpr function, `stage < stages`, all indices from 0:
///
///     static constexpr void order(std::size_t stage, std::size_t stages, std::size_t micro_batches,
///                                 heddle::schedules::compute_order& out);
///
/// that calls `out.forward(m, chunk)` and `out.backward(m, chunk)` (or `out.backward_input` and `out.backward_weight`)
/// in the order the stage runs them. Sends, receives, the gradient reduction and the step are derived. A schedule that
/// places those itself (to receive early, say) declares `program(stage, stages, micro_batches, program_order& out)`
/// *instead*, and emits every action.
///
/// **Optional.** `static constexpr std::size_t chunks` (per stage, default 1); `static constexpr bool accepts(stages,
/// micro_batches)`, false where the schedule is not defined; `template <std::size_t Stages, std::size_t MicroBatches>
/// struct requirements`, whose static_asserts say that rule in the schedule's own words.
///
/// **Laws**, proved for every table that is used (schedule_table, proof.hpp): each stage runs the forward and the
/// backward of each micro-batch and chunk once, backward after forward; sends and receives match, in order; the stages
/// never wait for each other in a circle; gradients are reduced once, after the last weight gradient; one step, last.
///
/// **Models.** gpipe, one_f_one_b.
template <class S>
concept Schedule = (schedules::detail::WritesComputeOrder<S> != schedules::detail::WritesProgram<S>);

}  // namespace heddle
