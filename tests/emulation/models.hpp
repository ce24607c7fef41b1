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
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "arenas.hpp"
#include "session.hpp"

/// Whole models trained by the same trainer on the host and on an emulated device.
namespace heddle::emulation {

/// What a run of two steps, an evaluation and a look at the logits came to, by name: rank 0's figures, and each rank's
/// parts of all parameters and gradients, and what it sent.
using trained = std::map<std::string, std::vector<double>>;
inline constexpr char const* later = "second";

template <class Model, class Plan, class Backend, class Rank>
void train(Rank& rank, trained& out, std::mutex& mutex) {
  using trainer = basic_trainer<Model, Plan, Backend>;
  using T = typename trainer::element;
  trainer run(rank, {.seed = 3, .learning_rate = 0.05, .clip = 0.5});
  traffic_table const before = run.sent();  // by the making of this one, and of others on the same ranks
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
  auto const look = [&](char const* when) {
    for (std::size_t n = 0; n < run.parameter_count(); ++n) {
      auto const view = run.parameter(n);
      std::vector<T> value(view.entry->size), gradient(view.gradient == nullptr ? 0 : view.entry->reduced_size);
      Backend::memory::to_host(static_cast<T const*>(view.value), value.data(), value.size());
      Backend::memory::to_host(static_cast<T const*>(view.gradient), gradient.data(), gradient.size());
      std::string const name(view.entry->name.view());
      mine[when + (" " + name)] = {value.begin(), value.end()};
      mine[when + (" gradient of " + name)] = {gradient.begin(), gradient.end()};
    }
  };
  for (std::uint64_t step = 0; step < 2; ++step) {
    fill(step);
    step_result const now = run.step(tokens, targets);
    mine["losses and norms"].insert(mine["losses and norms"].end(), {now.loss.sum, now.loss.count, now.gradient_norm});
    look(step == 0 ? "first" : later);
  }
  loss_sum const evaluated = run.evaluate(tokens, targets);
  mine["evaluation"] = {evaluated.sum, evaluated.count};
  std::vector<T> const logits = run.logits(tokens);
  mine["logits"] = {logits.begin(), logits.end()};
  traffic_table const sent = run.sent();
  for (std::size_t x = 0; x < sent.at.size(); ++x)
    for (std::size_t op = 0; op < sent.at[x].size(); ++op)
      mine["sent"].insert(mine["sent"].end(), {static_cast<double>(sent.at[x][op].calls - before.at[x][op].calls),
                                               static_cast<double>(sent.at[x][op].bytes - before.at[x][op].bytes)});
  using R = resolved<Model, Plan, Backend>;
  CHECK(run.allocated() == memory_of_stage<R>(stage_partition<R>::stage_of(rank.at())));
  std::lock_guard<std::mutex> const lock(mutex);
  for (auto const& [name, values] : mine) out[name + " on rank " + std::to_string(rank.rank())] = values;
}

/// Whether both agree, relative to the largest element of each array, of all ranks' parts: one part's may be nothing
/// but rounding, as is the gradient of a key's bias. In fp64, sums of at most a few dozen terms of order 1 in another
/// order: 1e-12. What stands behind an update of AdamW may differ more, since it divides each gradient by its own size,
/// however small: 1e-10, as in the equivalence table.
inline void check_same(trained const& device, trained const& host) {
  static std::set<std::string> const exact{"losses and norms", "evaluation", "logits"};
  REQUIRE(device.size() == host.size());
  auto const whole = [](std::string const& name) { return name.substr(0, name.find(" on ")); };
  std::map<std::string, double> largest;
  for (auto const& one : host)
    for (double const x : one.second) largest[whole(one.first)] = std::fmax(largest[whole(one.first)], std::fabs(x));
  for (auto const& one : host) {
    std::string const& name = one.first;
    std::vector<double> const& expected = one.second;
    CAPTURE(name);
    auto const found = device.find(name);
    REQUIRE(found != device.end());
    REQUIRE(found->second.size() == expected.size());
    double const within = name.starts_with("first gradient") || exact.count(whole(name)) != 0 ? 1e-12 : 1e-10;
    double apart = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      double const difference = std::fabs(found->second[i] - expected[i]);
      apart = difference <= apart ? apart : difference;  // NaN stays
    }
    CHECK(apart <= within * largest[whole(name)]);
  }
}

/// On the device as on the host, in the modes of these seeds (`in_every_mode`).
template <class Model, class Plan>
void check_model(std::vector<std::uint64_t> const& seeds) {
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
      check_arenas<basic_trainer<Model, Plan, cuda_backend>>(rank);
      train<Model, Plan, cuda_backend>(rank, device, mutex);
    });
    check_same(device, host);
  }
}

}  // namespace heddle::emulation
