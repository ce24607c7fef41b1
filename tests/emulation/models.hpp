// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda.hpp>
#include <heddle/backend/cuda/shared_device.hpp>
#include <heddle/backend/host.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/train/run.hpp>
#include <heddle/train/trainer.hpp>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "session.hpp"

/// Whole models trained by the same trainer on the host and on an emulated device.
namespace heddle::emulation {

/// What a run of two steps, an evaluation and a look at the logits came to, by name: rank 0's figures, and each rank's
/// parts of all parameters and gradients.
using trained = std::map<std::string, std::vector<double>>;

template <class Model, class Plan, class Backend, class Rank>
void train(Rank& rank, trained& out, std::mutex& mutex) {
  using trainer = basic_trainer<Model, Plan, Backend>;
  using T = typename trainer::element;
  trainer run(rank, {.learning_rate = 0.05, .clip = 0.5, .seed = 3});
  trained mine;
  std::vector<std::int32_t> tokens(trainer::local_tokens), targets(trainer::local_tokens);
  auto const fill = [&](std::uint64_t step) {
    std::uint64_t state = (run.data_rank() + 1) * 0x9E3779B97F4A7C15U + step;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      tokens[i] = static_cast<std::int32_t>((state >> 33) % Model::vocabulary);
      targets[i] = state >> 60 == 0 ? ignored_target : static_cast<std::int32_t>((state >> 40) % Model::vocabulary);
    }
  };
  for (std::uint64_t step = 0; step < 2; ++step) {
    fill(step);
    step_result const now = run.step(tokens, targets);
    mine["losses and norms"].insert(mine["losses and norms"].end(), {now.loss.sum, now.loss.count, now.gradient_norm});
  }
  loss_sum const evaluated = run.evaluate(tokens, targets);
  mine["evaluation"] = {evaluated.sum, evaluated.count};
  std::vector<T> const logits = run.logits(tokens);
  mine["logits"] = {logits.begin(), logits.end()};
  for (std::size_t n = 0; n < run.parameter_count(); ++n) {
    parameter_view<T> const view = run.parameter(n);
    std::vector<T> value(view.entry->size), gradient(view.gradient == nullptr ? 0 : view.entry->reduced_size);
    Backend::memory::to_host(static_cast<T const*>(view.value), value.data(), value.size());
    Backend::memory::to_host(static_cast<T const*>(view.gradient), gradient.data(), gradient.size());
    std::string const name(view.entry->name.view());
    mine[name] = {value.begin(), value.end()};
    mine["gradient of " + name] = {gradient.begin(), gradient.end()};
  }
  CHECK(run.allocated() == memory_of_stage<resolved<Model, Plan, Backend>>(0));
  std::lock_guard<std::mutex> const lock(mutex);
  for (auto const& [name, values] : mine) out[name + " on rank " + std::to_string(rank.rank())] = values;
}

/// Whether both agree to `within`, relative to the largest element of each array.
inline void check_same(trained const& device, trained const& host, double within) {
  REQUIRE(device.size() == host.size());
  for (auto const& [name, expected] : host) {
    CAPTURE(name);
    auto const found = device.find(name);
    REQUIRE(found != device.end());
    REQUIRE(found->second.size() == expected.size());
    double largest = 0, apart = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      largest = std::fmax(largest, std::fabs(expected[i]));
      double const difference = std::fabs(found->second[i] - expected[i]);
      apart = difference <= apart ? apart : difference;  // NaN stays
    }
    CHECK(apart <= within * largest);
  }
}

/// Device memory of `ranks` ranks that have made nothing yet, and what a trainer's scalars take beside the ledger.
template <class Model, class Plan>
void check_model(std::vector<std::uint64_t> const& seeds, double within) {
  constexpr std::size_t ranks = Plan::mesh::size;
  std::mutex mutex;
  trained host;
  run<Plan>(threads, [&](auto& rank) { train<Model, Plan, host_backend>(rank, host, mutex); });
  for (std::uint64_t const seed : seeds) {
    CAPTURE(seed);
    session const here(
        {.mode = seed < 2 ? execution::eager : execution::delayed, .seed = seed, .only_named = seed % 2 == 1});
    trained device;
    cuda::run_shared_device(ranks, 0, [&](cuda::shared_device_communicator& world) {
      mesh_communicator<typename Plan::mesh, cuda::shared_device_communicator> rank(world);
      train<Model, Plan, cuda_backend>(rank, device, mutex);
    });
    check_same(device, host, within);
  }
}

}  // namespace heddle::emulation
