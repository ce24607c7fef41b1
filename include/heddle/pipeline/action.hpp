// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace heddle::schedules {

/// What one stage can be told to do. A *stage* is the share of the layers that one rank of the pipeline axis holds; a
/// *chunk* is one of the several stretches of layers it holds when the schedule interleaves (chunk 0 otherwise).
enum class action_kind : std::uint8_t {
  forward,             ///< the chunk's forward of one micro-batch; saves activations in the micro-batch's slot
  backward,            ///< its whole backward: gradients of the input and of the weights
  backward_input,      ///< the part of the backward that the stage before waits for
  backward_weight,     ///< the other part; accumulates weight gradients, and frees the saved activations
  send_activation,     ///< starts sending the chunk's output to the stage that holds the next layers; does not wait
  receive_activation,  ///< waits for the chunk's input
  send_gradient,       ///< starts sending the gradient of the chunk's input to the stage that holds the layers before
  receive_gradient,    ///< waits for the gradient of the chunk's output
  reduce_gradients,    ///< reduces this stage's accumulated weight gradients over the data axes
  step,                ///< applies the optimizer to this stage's parameters
};

inline constexpr std::size_t action_kinds = 10;

/// One instruction of a stage's program. `micro_batch` and `chunk` are 0 for `reduce_gradients` and `step`.
struct action {
  action_kind kind = action_kind::forward;
  std::uint32_t micro_batch = 0;
  std::uint32_t chunk = 0;

  friend constexpr bool operator==(action const&, action const&) = default;
};

/// What an action is: the kinds that take time, and those that begin or end a transfer.
[[nodiscard]] constexpr bool is_compute(action_kind kind) { return kind <= action_kind::backward_weight; }
[[nodiscard]] constexpr bool is_send(action_kind kind) {
  return kind == action_kind::send_activation || kind == action_kind::send_gradient;
}
[[nodiscard]] constexpr bool is_receive(action_kind kind) {
  return kind == action_kind::receive_activation || kind == action_kind::receive_gradient;
}

/// The enumerator's name, for traces and reports.
[[nodiscard]] constexpr char const* name(action_kind kind) {
  constexpr char const* names[action_kinds] = {"forward",          "backward",
                                               "backward_input",   "backward_weight",
                                               "send_activation",  "receive_activation",
                                               "send_gradient",    "receive_gradient",
                                               "reduce_gradients", "step"};
  return names[static_cast<std::size_t>(kind)];
}

}  // namespace heddle::schedules
