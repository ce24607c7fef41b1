// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/names.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/train/sampler.hpp>

namespace heddle {

/// How a plan deals out the global batch of a step.
template <Plan PlanType>
inline constexpr batch_shape batch_shape_of = {PlanType::data_ways, PlanType::micro_batches,
                                               PlanType::micro_batch_size};

/// Which of the data ranks the rank at `at` is: ranks with the same number are given the same sequences.
template <Plan PlanType>
constexpr std::size_t data_rank_of(coordinates const& at) {
  constexpr std::size_t sequences = batch_shape_of<PlanType>.global_batch();
  constexpr dimension_list dims = {1, {{{id_v<batch>, batch::name, sequences, sequences}}}};
  using mesh = typename PlanType::mesh;
  return block_of(mesh::value, place(mesh::value, PlanType::rules::value, dims), id_v<batch>, at);
}

}  // namespace heddle
