// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <heddle/backend/cuda.hpp>
#include <heddle/backend/cuda/shared_device.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/train/trainer.hpp>
#include <string>
#include <vector>

#include "session.hpp"

/// Steps that are captured as a graph and replayed, beside steps that are not.
namespace heddle::emulation {

inline constexpr std::size_t captured_steps = 5, overflowing_step = 3;

/// What a run came to: each step's figures, and the bits of all that it trains before the first and after each.
struct stepped_run {
  std::vector<step_result> step;
  std::vector<std::vector<unsigned char>> bits;
  double evaluated = 0;
  std::size_t graphs = 0;
};

/// Five steps of other tokens, rates and masks, with an evaluation between; before the fourth the loss scale, if there
/// is one, is set to its largest.
template <class Model, class Plan, class Rank>
stepped_run steps_of(Rank& rank, bool capture) {
  using trainer = basic_trainer<Model, Plan, cuda_backend>;
  trainer run(rank, {.seed = 3, .clip = 0.5, .optimizer = {.weight_decay = 0.1}, .capture = capture});
  stepped_run out;
  auto const look = [&] {
    std::vector<unsigned char> bits;
    auto const add = [&bits](auto const* from, std::size_t n) {
      if (from == nullptr) return;
      std::vector<std::remove_cvref_t<decltype(*from)>> own(n);
      cuda_backend::memory::to_host(from, own.data(), n);
      auto const* const bytes = reinterpret_cast<unsigned char const*>(own.data());
      bits.insert(bits.end(), bytes, bytes + n * sizeof(*from));
    };
    for (std::size_t n = 0; n < run.parameter_count(); ++n) {
      auto const view = run.parameter(n);
      add(view.value, view.entry->size);
      add(view.master, view.entry->state_size);
      for (auto const* const s : run.optimizer_state(n)) add(s, view.entry->state_size);
    }
    out.bits.push_back(bits);
  };
  look();
  std::vector<std::int32_t> tokens(trainer::local_tokens), targets(trainer::local_tokens);
  for (std::size_t step = 0; step < captured_steps; ++step) {
    std::uint64_t state = 0x9E3779B97F4A7C15U + step;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      tokens[i] = static_cast<std::int32_t>((state >> 33) % Model::vocabulary);
      targets[i] = state >> 60 == 0 ? ignored_target : static_cast<std::int32_t>((state >> 40) % Model::vocabulary);
    }
    if (step == overflowing_step && Plan::precision_value.scale.adapts())
      run.set_loss_scale({.scale = Plan::precision_value.scale.most});
    out.step.push_back(run.step(tokens, targets, 0.05 / static_cast<double>(step + 1)));
    if (step == 2) out.evaluated = run.evaluate(tokens, targets).sum;
    look();
  }
  out.graphs = usage_now().graphs;
  return out;
}

template <class Model, class Plan>
stepped_run steps_in_mode(std::uint64_t seed, bool capture) {
  session const here(
      {.mode = seed < 2 ? execution::eager : execution::delayed, .seed = seed, .only_named = seed % 2 == 1});
  stepped_run out;
  cuda::run_shared_device(1, 0, [&](cuda::shared_device_communicator& world) {
    mesh_communicator<typename Plan::mesh, cuda::shared_device_communicator> rank(world);
    out = steps_of<Model, Plan>(rank, capture);
  });
  return out;
}

/// To the bit, in the modes of these seeds (`in_every_mode`).
template <class Model, class Plan>
stepped_run check_captured(std::vector<std::uint64_t> const& seeds) {
  stepped_run const plain = steps_in_mode<Model, Plan>(0, false);
  for (std::uint64_t const seed : seeds) {
    CAPTURE(seed);
    stepped_run const captured = steps_in_mode<Model, Plan>(seed, true);
    CHECK(plain.graphs == 0);
    CHECK(captured.graphs != 0);
    CHECK(captured.evaluated == plain.evaluated);
    REQUIRE(captured.step.size() == plain.step.size());
    for (std::size_t s = 0; s < plain.step.size(); ++s) {
      CAPTURE(s);
      CHECK(captured.step[s].loss.sum == plain.step[s].loss.sum);
      CHECK(captured.step[s].loss.count == plain.step[s].loss.count);
      CHECK(captured.step[s].loss_scale == plain.step[s].loss_scale);
      CHECK(captured.step[s].skipped == plain.step[s].skipped);
      if (!plain.step[s].skipped) CHECK(captured.step[s].gradient_norm == plain.step[s].gradient_norm);
      bool const same = captured.bits[s + 1] == plain.bits[s + 1], changed = captured.bits[s + 1] != captured.bits[s];
      CHECK(same);
      CHECK(changed == !plain.step[s].skipped);
    }
  }
  return plain;
}

}  // namespace heddle::emulation
