// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include <heddle/pipeline/action.hpp>
#include <heddle/pipeline/stage_position.hpp>

/// What a pipeline program must satisfy, each fact on its own. The functions read plain lists of actions, so that they
/// judge what a schedule says, what a test plants, and what an executor did (its recorded trace) alike.
namespace heddle::schedules::proof {

/// The first fact that a program breaks.
enum class fault_kind : std::uint8_t {
  none,
  out_of_range,             ///< a micro-batch or chunk that does not exist
  forward_not_once,         ///< a micro-batch's forward is missing or runs twice
  backward_not_once,        ///< a part of a micro-batch's backward is missing or runs twice (a whole one is both parts)
  backward_before_forward,  ///< a backward that stands before its forward
  weight_before_input,      ///< a split backward with its parts in the wrong order
  transfer_without_peer,    ///< the first layers receive no activation and send no gradient; the last, the reverse
  transfer_not_once,        ///< a send or receive is missing or stands twice
  computed_before_received,  ///< a forward or backward that stands before the receive of what it needs
  sent_before_computed,      ///< a send that stands before what it sends is there
  reduction_not_once,        ///< gradients are reduced never or twice
  reduction_too_early,       ///< a weight gradient comes after the reduction
  step_not_once_at_end,      ///< the step is missing, stands twice, or is not last, after the reduction
  order_mismatch,            ///< two neighbours do not send and receive in the same order
  deadlock,                  ///< stages wait for each other
};

/// A fault with its place; for `deadlock` the micro-batch and chunk are those the stage waits to run or receive.
struct fault {
  fault_kind kind = fault_kind::none;
  std::size_t stage = 0;
  std::size_t micro_batch = 0;
  std::size_t chunk = 0;

  /// True when there is a fault.
  [[nodiscard]] constexpr explicit operator bool() const { return kind != fault_kind::none; }
  friend constexpr bool operator==(fault const&, fault const&) = default;
};

namespace detail {

// One bit for each thing that must happen to a micro-batch once.
inline constexpr unsigned did_forward = 1;
inline constexpr unsigned did_input_gradient = 2;
inline constexpr unsigned did_weight_gradient = 4;
inline constexpr unsigned did_send_activation = 8;
inline constexpr unsigned did_receive_activation = 16;
inline constexpr unsigned did_send_gradient = 32;
inline constexpr unsigned did_receive_gradient = 64;

// By action_kind: what it does, and what must have been done before (on this stage).
inline constexpr unsigned does[action_kinds] = {did_forward,
                                                did_input_gradient | did_weight_gradient,
                                                did_input_gradient,
                                                did_weight_gradient,
                                                did_send_activation,
                                                did_receive_activation,
                                                did_send_gradient,
                                                did_receive_gradient,
                                                0,
                                                0};
inline constexpr unsigned needs[action_kinds] = {did_receive_activation,
                                                 did_forward | did_receive_gradient,
                                                 did_forward | did_receive_gradient,
                                                 did_input_gradient,
                                                 did_forward,
                                                 0,
                                                 did_input_gradient,
                                                 0,
                                                 0,
                                                 0};

/// Everything that must happen to each micro-batch of a chunk.
constexpr unsigned life_of(stage_position at, std::size_t chunk) {
  unsigned all = did_forward | did_input_gradient | did_weight_gradient;
  if (at.has_peer_before(chunk)) all |= did_receive_activation | did_send_gradient;
  if (at.has_peer_after(chunk)) all |= did_send_activation | did_receive_gradient;
  return all;
}

constexpr fault_kind repeated(action_kind kind) {
  return kind == action_kind::forward ? fault_kind::forward_not_once
         : is_compute(kind)           ? fault_kind::backward_not_once
                                      : fault_kind::transfer_not_once;
}
constexpr fault_kind too_early(action_kind kind, unsigned missing) {
  if (!is_compute(kind)) return fault_kind::sent_before_computed;
  if (kind == action_kind::backward_weight) return fault_kind::weight_before_input;
  if ((missing & did_forward) != 0) return fault_kind::backward_before_forward;
  return fault_kind::computed_before_received;
}
constexpr fault_kind missing_at_end(unsigned missing) {
  if ((missing & did_forward) != 0) return fault_kind::forward_not_once;
  if ((missing & (did_input_gradient | did_weight_gradient)) != 0) return fault_kind::backward_not_once;
  return fault_kind::transfer_not_once;
}

}  // namespace detail

/// The micro-batches' facts of one stage: each runs its forward and both parts of its backward once and in order, and
/// its transfers once, each on the right side of the computation. Linear in the list.
template <std::size_t MicroBatches, std::size_t Chunks = 1>
[[nodiscard]] constexpr fault micro_batch_fault(std::span<action const> list, std::size_t stage, std::size_t stages) {
  stage_position const at{stage, stages, Chunks};
  bool const alone = stages == 1 && Chunks > 1;
  unsigned life[Chunks] = {};
  for (std::size_t c = 0; c < Chunks; ++c) life[c] = detail::life_of(at, c);
  unsigned done[Chunks * MicroBatches] = {};
  // Plain pointers, and copies of what is read: iterators and references cost the compiler more, in every stage's
  // proof.
  for (action const *next = list.data(), *const end = next + list.size(); next != end; ++next) {
    action const a = *next;
    std::size_t const kind = static_cast<std::size_t>(a.kind);
    std::size_t const m = a.micro_batch;
    std::size_t const c = a.chunk;
    unsigned const marks = detail::does[kind];
    if (marks == 0) continue;
    if (m >= MicroBatches || c >= Chunks) return {fault_kind::out_of_range, stage, m, c};
    unsigned const all = life[c];
    unsigned const before = done[c * MicroBatches + m];
    if ((marks & ~all) != 0) return {fault_kind::transfer_without_peer, stage, m, c};
    if ((before & marks) != 0) return {detail::repeated(a.kind), stage, m, c};
    if (unsigned const missing = detail::needs[kind] & all & ~before; missing != 0)
      return {detail::too_early(a.kind, missing), stage, m, c};
    // Without a peer the chunks hand over in place, so their order is the program's to keep.
    if (alone && a.kind == action_kind::forward && c > 0 &&
        (done[(c - 1) * MicroBatches + m] & detail::did_forward) == 0)
      return {fault_kind::computed_before_received, stage, m, c};
    if (alone && (marks & detail::did_input_gradient) != 0 && c + 1 < Chunks &&
        (done[(c + 1) * MicroBatches + m] & detail::did_input_gradient) == 0)
      return {fault_kind::computed_before_received, stage, m, c};
    done[c * MicroBatches + m] = before | marks;
  }
  for (std::size_t c = 0; c < Chunks; ++c)
    for (std::size_t m = 0; m < MicroBatches; ++m)
      if (done[c * MicroBatches + m] != life[c])
        return {detail::missing_at_end(life[c] & ~done[c * MicroBatches + m]), stage, m, c};
  return {};
}

/// The end of one stage's program: gradients are reduced once, after the weight gradient of every micro-batch (a whole
/// backward and the weight part of a split one count alike), then one step, as the last action.
[[nodiscard]] constexpr fault completion_fault(std::span<action const> list, std::size_t stage) {
  bool reduced = false;
  action const* const first = list.data();
  std::size_t const size = list.size();
  for (std::size_t i = 0; i < size; ++i) {
    action_kind const kind = first[i].kind;
    if (kind == action_kind::reduce_gradients) {
      if (reduced) return {fault_kind::reduction_not_once, stage, 0, 0};
      reduced = true;
    } else if (kind == action_kind::step) {
      if (i + 1 != size || !reduced) return {fault_kind::step_not_once_at_end, stage, 0, 0};
    } else if (reduced && (kind == action_kind::backward || kind == action_kind::backward_weight)) {
      return {fault_kind::reduction_too_early, stage, first[i].micro_batch, first[i].chunk};
    }
  }
  if (!reduced) return {fault_kind::reduction_not_once, stage, 0, 0};
  if (first[size - 1].kind != action_kind::step) return {fault_kind::step_not_once_at_end, stage, 0, 0};
  return {};
}

/// One channel: what `sender` sends of `Send`'s kind, its peer receives, in the same order. Activations go to the next
/// stage, gradients to the previous one; around the ring too, where chunks do.
[[nodiscard]] constexpr fault channel_fault(std::span<action const> sends, std::span<action const> receives,
                                            action_kind send, stage_position sender) {
  bool const activation = send == action_kind::send_activation;
  action_kind const receive = activation ? action_kind::receive_activation : action_kind::receive_gradient;
  action const* from = sends.data();
  action const* const from_end = from + sends.size();
  action const* to = receives.data();
  action const* const to_end = to + receives.size();
  for (;;) {
    while (from != from_end && from->kind != send) ++from;
    while (to != to_end && to->kind != receive) ++to;
    if (from == from_end && to == to_end) return {};
    if (from == from_end || to == to_end) {
      action const& alone = from == from_end ? *to : *from;
      return {fault_kind::order_mismatch, sender.stage, alone.micro_batch, alone.chunk};
    }
    // An activation crosses to the same chunk of the next stage, or from the last stage to the next chunk of the first.
    std::size_t chunk = from->chunk;
    if (activation && sender.stage + 1 == sender.stages) ++chunk;
    if (!activation && sender.stage == 0) --chunk;
    if (from->micro_batch != to->micro_batch || chunk != to->chunk)
      return {fault_kind::order_mismatch, sender.stage, from->micro_batch, from->chunk};
    ++from;
    ++to;
  }
}

}  // namespace heddle::schedules::proof
