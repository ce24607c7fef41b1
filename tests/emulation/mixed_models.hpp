// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <array>
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
#include <string>
#include <vector>

#include "arenas.hpp"
#include "session.hpp"

/// Whole models trained in mixed precision by the same trainer on the host and on an emulated device.
namespace heddle::emulation {

inline constexpr double mixed_rate = 0.05;
inline constexpr std::size_t mixed_steps = 2;

/// What one rank's part of a parameter, of its gradient, master weight and moments were after a step.
struct mixed_parameter {
  std::vector<double> value, gradient, master, first, second;
};
/// What a run came to: each step's figures, and all ranks' parts.
struct mixed_run {
  std::vector<step_result> step;
  std::map<std::string, std::array<mixed_parameter, mixed_steps>> parameter;  ///< "name on rank r"
  std::vector<double> logits, sent;
  double evaluated = 0;
};

/// Numbers of a backend's memory, in double; none at null.
template <class Backend, class U>
std::vector<double> numbers(U const* from, std::size_t n) {
  std::vector<double> out;
  if (from == nullptr) return out;
  std::vector<U> own(n);
  Backend::memory::to_host(from, own.data(), n);
  for (U const one : own) out.push_back(static_cast<double>(static_cast<accumulation_t<U>>(one)));
  return out;
}

template <class Backend, class Trainer>
mixed_parameter look_at(Trainer& run, std::size_t n) {
  auto const view = run.parameter(n);
  auto const& e = *view.entry;
  auto const state = run.optimizer_state(n);
  return {numbers<Backend>(static_cast<typename Trainer::elements::value const*>(view.value), e.size),
          numbers<Backend>(static_cast<typename Trainer::elements::gradient const*>(view.gradient), e.reduced_size),
          numbers<Backend>(static_cast<float const*>(view.master), e.state_size),
          numbers<Backend>(static_cast<float const*>(state[0]), e.state_size),
          numbers<Backend>(static_cast<float const*>(state[1]), e.state_size)};
}

/// Two steps, an evaluation and a look at the logits. A step that is skipped changes no bit of what is trained.
template <class Model, class Plan, class Backend, class Rank>
void train_mixed(Rank& rank, mixed_run& out, std::mutex& mutex) {
  using trainer = basic_trainer<Model, Plan, Backend>;
  // With so large an ε an update is nearly linear in the gradient: of AdamW's own, the least rounding of a gradient
  // near 0 makes another sign.
  trainer run(rank, {.seed = 3, .learning_rate = mixed_rate, .optimizer = {.epsilon = 1, .weight_decay = 0.01}});
  traffic_table const before = run.sent();
  mixed_run mine;
  std::string const here = " on rank " + std::to_string(rank.rank());
  std::vector<std::int32_t> tokens(trainer::local_tokens), targets(trainer::local_tokens);
  std::vector<mixed_parameter> last;
  for (std::size_t n = 0; n < run.parameter_count(); ++n) last.push_back(look_at<Backend>(run, n));
  for (std::size_t step = 0; step < mixed_steps; ++step) {
    std::uint64_t state = (run.data_rank() + 1) * 0x9E3779B97F4A7C15U + step;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      tokens[i] = static_cast<std::int32_t>((state >> 33) % Model::vocabulary);
      targets[i] = state >> 60 == 0 ? ignored_target : static_cast<std::int32_t>((state >> 40) % Model::vocabulary);
    }
    mine.step.push_back(run.step(tokens, targets));
    for (std::size_t n = 0; n < run.parameter_count(); ++n) {
      mixed_parameter const now = look_at<Backend>(run, n);
      bool const same = now.value == last[n].value && now.master == last[n].master && now.first == last[n].first &&
                        now.second == last[n].second;
      if (mine.step.back().skipped) CHECK(same);
      last[n] = now;
      mine.parameter[std::string(run.parameter(n).entry->name.view()) + here][step] = now;
    }
  }
  mine.evaluated = run.evaluate(tokens, targets).sum;
  auto const logits = run.logits(tokens);
  mine.logits.assign(logits.begin(), logits.end());
  traffic_table const sent = run.sent();
  for (std::size_t x = 0; x < sent.at.size(); ++x)
    for (std::size_t op = 0; op < sent.at[x].size(); ++op)
      mine.sent.insert(mine.sent.end(), {static_cast<double>(sent.at[x][op].calls - before.at[x][op].calls),
                                         static_cast<double>(sent.at[x][op].bytes - before.at[x][op].bytes)});
  using R = resolved<Model, Plan, Backend>;
  CHECK(run.allocated() == memory_of_stage<R>(stage_partition<R>::stage_of(rank.at())));
  std::lock_guard<std::mutex> const lock(mutex);
  out.parameter.merge(mine.parameter);
  if (rank.rank() != 0) return;
  out.step = mine.step;
  out.logits = mine.logits;
  out.sent = mine.sent;
  out.evaluated = mine.evaluated;
}

inline double most_of(std::vector<double> const& all) {
  double most = 0;
  for (double const x : all) most = std::fmax(most, std::fabs(x));
  return most;
}
inline double apart(std::vector<double> const& a, std::vector<double> const& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    double const off = std::fabs(a[i] - b[i]);
    most = off <= most ? most : off;  // NaN stays
  }
  return most;
}

/// Both round at the same points, of numbers that differ by float's roundings: where such a number is near the middle
/// of a step, the results are a step apart, and what is computed from them differs. Of so few and short sums hardly any
/// is, so there is room for one, in units u of one rounding of the storage type:
///   loss       1, as in tests/equivalence/precision.cpp: its roundings are of logits below 1
///   gradient   1 of an element, relative to the largest of its parameter, and as much again for each step before
///   master     what gradients that differ so much move it by: an update changes by at most 2·rate times that
///   value      that, and a step
/// Seen are the same bits, but of the loss, 2e-4 u. Products that are rounded once too often show as 2.9 u of a
/// gradient on the data ranks. Where the two round at other points there are so many `roundings`.
template <class Policy>
void check_mixed_alike(mixed_run const& device, mixed_run const& host, Policy const& policy, double roundings = 1) {
  double const u = roundings / static_cast<double>(std::size_t{2} << fraction_bits(policy.storage));
  REQUIRE(device.step.size() == host.step.size());
  for (std::size_t s = 0; s < host.step.size(); ++s) {
    CAPTURE(s);
    step_result const &now = device.step[s], &expected = host.step[s];
    CHECK(now.skipped == expected.skipped);
    CHECK(now.loss_scale == expected.loss_scale);
    CHECK(now.loss.count == expected.loss.count);
    CHECK(std::fabs(now.loss.sum - expected.loss.sum) <= u * std::fabs(expected.loss.sum));
    if (!expected.skipped) CHECK(std::fabs(now.gradient_norm - expected.gradient_norm) <= u * expected.gradient_norm);
  }
  CHECK(std::fabs(device.evaluated - host.evaluated) <= u * std::fabs(host.evaluated));
  CHECK(apart(device.logits, host.logits) <= u * most_of(host.logits));
  CHECK(device.sent == host.sent);
  REQUIRE(device.parameter.size() == host.parameter.size());
  for (auto const& entry : host.parameter) {
    std::string const& name = entry.first;
    CAPTURE(name);
    auto const found = device.parameter.find(name);
    REQUIRE(found != device.parameter.end());
    double moved = 0, gradient_off = 0;
    for (std::size_t s = 0; s < host.step.size(); ++s) {
      CAPTURE(s);
      mixed_parameter const &now = found->second[s], &expected = entry.second[s];
      if (!host.step[s].skipped) {
        double const largest = most_of(expected.gradient), scale = host.step[s].loss_scale;
        gradient_off += u * largest / scale;
        CHECK(apart(now.gradient, expected.gradient) <= gradient_off * scale);
        moved += 2 * mixed_rate * gradient_off;
        CHECK(apart(now.first, expected.first) <= gradient_off);
        CHECK(apart(now.second, expected.second) <= 2 * gradient_off * largest / scale + 0x1p-24);
      }
      CHECK(apart(now.master, expected.master) <= moved + 0x1p-22 * most_of(expected.master));
      CHECK(apart(now.value, expected.value) <= moved + 2 * u * most_of(expected.value) + 0x1p-24);
    }
  }
}

/// On the device as on the host, in the modes of these seeds (`in_every_mode`). The arenas of the device are those of
/// the ledger.
template <class Model, class Plan>
mixed_run check_mixed_model(std::vector<std::uint64_t> const& seeds, double roundings = 1) {
  constexpr std::size_t ranks = Plan::mesh::size;
  std::mutex mutex;
  mixed_run host;
  run<Plan>(threads, [&](auto& rank) { train_mixed<Model, Plan, host_backend>(rank, host, mutex); });
  for (std::uint64_t const seed : seeds) {
    CAPTURE(seed);
    session const here(
        {.mode = seed < 2 ? execution::eager : execution::delayed, .seed = seed, .only_named = seed % 2 == 1});
    mixed_run device;
    cuda::run_shared_device(ranks, 0, [&](cuda::shared_device_communicator& world) {
      mesh_communicator<typename Plan::mesh, cuda::shared_device_communicator> rank(world);
      check_arenas<basic_trainer<Model, Plan, cuda_backend>>(rank);
      train_mixed<Model, Plan, cuda_backend>(rank, device, mutex);
    });
    check_mixed_alike(device, host, Plan::precision_value, roundings);
  }
  return host;
}

}  // namespace heddle::emulation
