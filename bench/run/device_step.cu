// SPDX-License-Identifier: Apache-2.0
// Training steps of one model on one device, in bf16_mixed: a JSON object with seconds of each step, the model's
// operations, and memory: what the ledger says, what the trainer allocated, and what the device had less of meanwhile.
// Compiled with HEDDLE_LAYERS, HEDDLE_HEADS, HEDDLE_WIDTH, HEDDLE_SEQUENCES (of a step), HEDDLE_CONTEXT and
// HEDDLE_VOCABULARY.
//   device-step STEPS    after three that are not counted
// All steps have the same batch, so the last loss must be below the first. Where the ledger's bytes are not free on the
// device, both numbers are all it prints, and its status is 3.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <heddle/backend/cuda.hpp>
#include <heddle/cuda/run.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/plan/flops.hpp>
#include <heddle/plan/ledger.hpp>
#include <heddle/train/trainer.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace hd = heddle;

using model = hd::gpt2<hd::gpt2_config{.vocabulary = HEDDLE_VOCABULARY,
                                       .context = HEDDLE_CONTEXT,
                                       .layers = HEDDLE_LAYERS,
                                       .heads = HEDDLE_HEADS,
                                       .width = HEDDLE_WIDTH}>;
struct plan : hd::plan<hd::mesh<>, hd::micro_batch<HEDDLE_SEQUENCES>, hd::precision<hd::bf16_mixed>> {};
using trainer = hd::basic_trainer<model, plan, hd::cuda_backend>;
using ledger = hd::basic_ledger<hd::resolved<model, plan, hd::cuda_backend>>;

constexpr std::size_t not_counted = 3;

std::size_t free_bytes() {
  std::size_t free = 0, all = 0;
  hd::cuda::check(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return free;
}

void judge(std::vector<double> const& losses) {
  for (std::size_t step = 0; step < losses.size(); ++step)
    if (!std::isfinite(losses[step]))
      throw std::runtime_error("the loss of step " + std::to_string(step) + " is not finite");
  if (!(losses.back() < losses.front()))
    throw std::runtime_error("the loss went from " + std::to_string(losses.front()) + " to " +
                             std::to_string(losses.back()) + " in " + std::to_string(losses.size()) +
                             " steps with one batch");
}

}  // namespace

int main(int argc, char** argv) try {
  long const asked = argc == 2 ? std::strtol(argv[1], nullptr, 10) : 0;
  if (asked < 1) {
    std::fprintf(stderr, "device-step: takes the number of steps, at least 1\n");
    return 2;
  }
  auto const steps = static_cast<std::size_t>(asked);
  std::vector<double> seconds, losses;
  std::size_t allocated = 0, taken = 0, free_at_first = 0;
  hd::run<plan>(hd::shared_device, [&](auto& rank) {
    std::size_t const before = free_at_first = free_bytes();
    if (ledger::peak_bytes > before) return;
    trainer run(rank, {.learning_rate = 1e-4, .clip = 1});
    std::vector<std::int32_t> tokens(trainer::local_tokens), targets(trainer::local_tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(i * 7919 % model::vocabulary);
      targets[i] = static_cast<std::int32_t>((i + 1) * 7919 % model::vocabulary);
    }
    for (std::size_t step = 0; step < not_counted + steps; ++step) {
      auto const begin = std::chrono::steady_clock::now();
      double const loss = run.step(tokens, targets).loss.mean();  // is on the host when the step has ended
      losses.push_back(loss);
      if (step < not_counted) continue;
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    allocated = run.allocated().total();
    taken = before - free_bytes();
  });
  if (losses.empty()) {
    std::printf("{\"ledger_bytes\": %zu, \"free_bytes\": %zu}\n", static_cast<std::size_t>(ledger::peak_bytes),
                free_at_first);
    return 3;
  }
  judge(losses);
  auto const list = [](std::vector<double> const& all) {
    std::string text;
    for (double const one : all) text += (text.empty() ? "" : ", ") + std::to_string(one);
    return "[" + text + "]";
  };
  std::printf(
      "{\"parameters\": %zu, \"tokens_per_step\": %zu, \"flop_per_step\": %.17g, \"ledger_bytes\": %zu, "
      "\"allocated_bytes\": %zu, "
      "\"device_bytes\": %zu, \"seconds\": %s, \"losses\": %s}\n",
      static_cast<std::size_t>(ledger::parameters), trainer::local_tokens,
      static_cast<double>(hd::training_flops(hd::flops_per_sequence<model>)) * trainer::global_batch_size,
      static_cast<std::size_t>(ledger::peak_bytes), allocated, taken, list(seconds).c_str(), list(losses).c_str());
} catch (std::exception const& e) {
  std::fprintf(stderr, "device-step: %s\n", e.what());
  return 1;
}
