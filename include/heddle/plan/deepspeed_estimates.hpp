// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/error.hpp>

namespace heddle {

// What DeepSpeed's own estimator says its ZeRO needs for parameters, gradients and Adam's state in mixed precision
// (`estimate_zero2_model_states_mem_needs`, `estimate_zero3_…`; DeepSpeed, docs/code-docs/source/memory.rst), for
// comparing plans with it. A heddle plan's bytes are its ledger's.

/// What moves to the host's memory.
enum class deepspeed_offload : unsigned char { nothing, optimizer, optimizer_and_parameters };

/// A model and the machines it trains on.
struct deepspeed_setup {
  double parameters = 0;
  double largest_layer = 0;  ///< parameters of the module that has most; for stage 3
  double gpus_per_node = 1;
  double nodes = 1;
  deepspeed_offload offload = deepspeed_offload::nothing;
  bool builds_partitioned = true;  ///< zero.Init: no rank ever holds the whole model; for stage 3
};

/// Bytes on one GPU, and in the memory of one node.
struct deepspeed_bytes {
  double gpu = 0;
  double host = 0;
};

namespace detail {
inline constexpr double deepspeed_margin = 1.5;  // its additional_buffer_factor
constexpr double larger_of(double a, double b) { return a < b ? b : a; }
}  // namespace detail

/// Stage 2: 4 bytes for each parameter and 16 divided among the GPUs; with the optimizer on the host 2.
/// It moves no parameters, and `offload` must not ask for it.
[[nodiscard]] constexpr deepspeed_bytes deepspeed_zero2(deepspeed_setup const& s) {
  double const gpus = s.gpus_per_node * s.nodes;
  if (s.offload == deepspeed_offload::optimizer_and_parameters)
    throw error(
        "deepspeed_zero2: 'offload' is optimizer_and_parameters; it must be nothing or optimizer, or use "
        "deepspeed_zero3");
  if (s.offload == deepspeed_offload::nothing)
    return {4 * s.parameters + 16 * s.parameters / gpus, s.parameters * 4 * s.gpus_per_node * detail::deepspeed_margin};
  return {2 * s.parameters, s.parameters * detail::larger_of(4 * s.gpus_per_node, 16) * detail::deepspeed_margin};
}

/// Stage 3: the largest layer gathered in 4 bytes, and 18 bytes for each parameter divided among the GPUs, of which 16
/// or all move to the host. Building the model on the host, whole, may take more of it than training does.
[[nodiscard]] constexpr deepspeed_bytes deepspeed_zero3(deepspeed_setup const& s) {
  double const gpus = s.gpus_per_node * s.nodes;
  double const stays = s.offload == deepspeed_offload::nothing ? 18 : s.offload == deepspeed_offload::optimizer ? 2 : 0;
  double const moved = (18 - stays) * s.parameters / s.nodes;
  double const built = 4 * s.gpus_per_node * (s.builds_partitioned ? s.largest_layer : s.parameters);
  double const in_training = s.offload == deepspeed_offload::nothing ? 0 : moved;
  double const host = s.builds_partitioned && in_training > 0 ? in_training : detail::larger_of(built, in_training);
  return {4 * s.largest_layer + stays * s.parameters / gpus, host * detail::deepspeed_margin};
}

}  // namespace heddle
