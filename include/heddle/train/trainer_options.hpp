// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <heddle/comm/reduction.hpp>
#include <heddle/error.hpp>
#include <heddle/train/trace.hpp>
#include <span>
#include <string>

namespace heddle {

/// What a run chooses at run time.
template <class OptimizerOptions>
struct trainer_options {
  std::uint64_t seed = 1;
  double learning_rate = 1e-3;
  double clip = 0;  ///< bound of the global gradient norm (Pascanu et al., arXiv 1211.5063 §3.2); 0 means none
  OptimizerOptions optimizer{};
  trace_recorder* trace = nullptr;  ///< records every action of this rank's schedule
};

namespace detail {

/// A rate that is no number, or negative, would spoil every parameter in one step.
inline void check_learning_rate(double rate) {
  if (!(rate >= 0) || !std::isfinite(rate))
    throw error("trainer: 'learning_rate' is " + std::to_string(rate) + "; give a finite number that is at least 0");
}

/// An error where an option has no meaning; the optimizer checks its own, if it has `check(options)`.
template <class OptimizerType, class Options>
void check_options(Options const& o) {
  check_learning_rate(o.learning_rate);
  if (!(o.clip >= 0))
    throw error("trainer: 'clip' is " + std::to_string(o.clip) +
                "; give a bound of the gradient norm that is above 0, or 0 for none");
  if constexpr (requires { OptimizerType::check(o.optimizer); }) OptimizerType::check(o.optimizer);
}

/// Ranks that start from other seeds, or step by other rates, hold replicas that differ, and nothing later would show
/// it: so all ranks compare what they were given, once. Collective over the whole mesh.
template <class MeshCommunicator, class Options>
void check_agreement(MeshCommunicator& comm, Options const& o) {
  constexpr std::size_t values = 4;
  constexpr char const* names[values] = {"seed", "seed", "learning_rate", "clip"};
  // A seed has more bits than a double.
  double const mine[values] = {static_cast<double>(o.seed >> 32), static_cast<double>(o.seed & 0xFFFFFFFFU),
                               o.learning_rate, o.clip};
  std::array<double, 2 * values> extremes{};
  for (std::size_t i = 0; i < values; ++i) {
    extremes[i] = mine[i];
    extremes[values + i] = -mine[i];
  }
  comm.all_reduce((1U << MeshCommunicator::mesh::value.axes) - 1U, std::span<double>(extremes), comm::reduction::max);
  for (std::size_t i = 0; i < values; ++i)
    if (extremes[i] != -extremes[values + i])
      throw error(std::string("trainer: '") + names[i] + "' differs between ranks, and is " +
                  (i < 2 ? std::to_string(o.seed) : std::to_string(mine[i])) + " on rank " +
                  std::to_string(comm.rank()) + "; give all ranks the same options");
}

}  // namespace detail

}  // namespace heddle
