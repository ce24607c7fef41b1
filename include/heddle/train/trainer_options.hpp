// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <heddle/comm/reduction.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/optim/optimizer_concepts.hpp>
#include <heddle/precision/precision_rules.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/train/trace.hpp>
#include <span>
#include <string>
#include <tuple>

namespace heddle {

/// What a run chooses at run time.
template <class OptimizerOptions>
struct trainer_options {
  std::uint64_t seed = 1;
  double learning_rate = 1e-3;
  double clip = 0;  ///< bound of the global gradient norm (Pascanu et al., arXiv 1211.5063 §3.2); 0 means none
  OptimizerOptions optimizer{};
  trace_recorder* trace = nullptr;  ///< records every action of this rank's schedule
  /// On a device, of one rank: the second step is captured as a graph, and replayed from then on. That is of how a run
  /// is executed, not of what it comes to, so it stands here and not in the plan.
  bool capture = false;
};

namespace detail {

/// A rate that is no number, or negative, would spoil every parameter in one step.
inline void check_learning_rate(double rate) {
  if (!(rate >= 0) || !std::isfinite(rate))
    throw error(joined_text(
        {"trainer: 'learning_rate' is ", std::to_string(rate), "; give a finite number that is at least 0"}));
}

/// A scale that the policy cannot reach would round what it scales, or find no bound.
inline void check_loss_scale(loss_scale_policy const& policy, loss_scale_state const& state) {
  if (!is_power_of_two(state.scale) || state.scale < policy.least || state.scale > policy.most)
    throw error(
        joined_text({"trainer: the 'scale' of a loss scale's state is ", state.scale,
                     ", and must be a power of two from ", policy.least, " to ", policy.most,
                     ", the bounds of the plan's precision; set what loss_scale() gave under the same policy"}));
}

/// An error where an option has no meaning; the optimizer checks its own, if it has `check(options)`.
template <class OptimizerType, class Options>
void check_options(Options const& o) {
  check_learning_rate(o.learning_rate);
  if (!(o.clip >= 0))
    throw error(joined_text({"trainer: 'clip' is ", std::to_string(o.clip),
                             "; give a bound of the gradient norm that is above 0, or 0 for none"}));
  if constexpr (requires { OptimizerType::check(o.optimizer); }) OptimizerType::check(o.optimizer);
}

/// The optimizer's options; none where they are empty.
template <class OptimizerType>
constexpr auto values_of(typename OptimizerType::options const& o) {
  if constexpr (TellsOptions<OptimizerType>)
    return OptimizerType::values(o);
  else
    return std::array<option_value, 0>{};
}

/// Ranks that start from other seeds, or step by other rates, hold replicas that differ, and nothing later would show
/// it: so all ranks compare what they were given, once. Collective over the whole mesh.
template <class OptimizerType, class Communicator, class Options>
void check_agreement(process_groups<Communicator>& comm, Options const& o) {
  auto const of_optimizer = values_of<OptimizerType>(o.optimizer);
  constexpr std::size_t own = 3, count = own + std::tuple_size_v<decltype(values_of<OptimizerType>(o.optimizer))>;
  std::array<option_value, count> named = {{{"seed", 0}, {"learning_rate", o.learning_rate}, {"clip", o.clip}}};
  for (std::size_t i = own; i < count; ++i) named[i] = of_optimizer[i - own];
  // Bits, so that every seed is told from its neighbours and a NaN is equal to itself; 0 and -0 are one number.
  std::array<std::uint64_t, count> mine{o.seed};
  for (std::size_t i = 1; i < count; ++i) mine[i] = std::bit_cast<std::uint64_t>(named[i].value + 0.0);
  std::array<std::uint64_t, 2 * count> extremes{};
  for (std::size_t i = 0; i < count; ++i) {
    extremes[i] = mine[i];
    extremes[count + i] = ~mine[i];
  }
  using memory = memory_of<Communicator>;
  typename memory::template arena<std::uint64_t> const reduced(extremes.size());
  memory::from_host(extremes.data(), reduced.data(), extremes.size());
  comm.all_reduce(comm.all_axes(), std::span<std::uint64_t>(reduced.data(), reduced.size()), comm::reduction::max);
  memory::to_host(static_cast<std::uint64_t const*>(reduced.data()), extremes.data(), extremes.size());
  for (std::size_t i = 0; i < count; ++i)
    if (extremes[i] != ~extremes[count + i])
      throw error(joined_text({"trainer: '", named[i].name, "' differs between ranks, and is ",
                               i == 0 ? text_part(o.seed) : text_part(named[i].value), " on rank ", comm.rank(),
                               "; give all ranks the same options"}));
}

}  // namespace detail

}  // namespace heddle
