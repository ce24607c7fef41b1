// SPDX-License-Identifier: Apache-2.0
// Where a training step's time goes: milliseconds per step and rank, by primitive, with the rate of products and
// attention. What no primitive accounts for is communication, waiting, and clearing gradients.
//
//   step [STEPS]     default 20, after 3 that are not counted
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <heddle/heddle.hpp>
#include <vector>

#include "timed_backend.hpp"

namespace {

namespace hd = heddle;

/// nanoGPT's Shakespeare shape for a CPU.
using tiny =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = false}>;
/// The same with what is a pass of its own over memory, each time.
using with_passes = hd::gpt2<hd::gpt2_config{
    .vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = true, .dropout = 0.1}>;

struct serial : hd::plan<hd::global_batch<12>> {};
struct dp2 : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::global_batch<12>> {};
struct three_d : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::global_batch<12>,
                          hd::accumulate<3>> {};

template <class Model, class Plan>
void measure(char const* name, std::size_t steps) {
  using trainer_type = hd::basic_trainer<Model, Plan, bench::timed_backend>;
  std::vector<bench::spent> ranks(Plan::mesh::size);
  std::vector<double> step_seconds(steps);
  hd::run<Plan>(hd::threads, [&](auto& rank) {
    trainer_type trainer(rank, {.clip = 1.0});
    std::vector<std::int32_t> tokens(trainer_type::local_tokens), targets(trainer_type::local_tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(i * 7 % Model::vocabulary);
      targets[i] = static_cast<std::int32_t>((i * 7 + 7) % Model::vocabulary);
    }
    for (int warm_up = 0; warm_up < 3; ++warm_up) trainer.step(tokens, targets);
    bench::mine = {};
    for (std::size_t s = 0; s < steps; ++s) {
      auto const begin = std::chrono::steady_clock::now();
      trainer.step(tokens, targets);
      if (rank.rank() == 0)
        step_seconds[s] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    ranks[rank.rank()] = bench::mine;
  });
  std::sort(step_seconds.begin(), step_seconds.end());
  double const median = step_seconds[steps / 2];
  double const tokens = static_cast<double>(Plan::global_batch_size * Model::context);
  std::printf("\n%s: %zu ranks, %.2f ms a step (median; fastest %.2f), %.0f tokens/s\n", name, Plan::mesh::size,
              1e3 * median, 1e3 * step_seconds[0], tokens / median);
  std::printf("  %-20s %10s %8s %10s\n", "primitive", "ms a rank", "share", "GFLOP/s");
  double const share_of = static_cast<double>(steps) * static_cast<double>(Plan::mesh::size);
  double accounted = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(bench::primitive::count); ++k) {
    double seconds = 0, flop = 0;
    for (auto const& r : ranks) {
      seconds += r.seconds[k];
      flop += r.flop[k];
    }
    if (seconds == 0) continue;
    accounted += seconds / share_of;
    std::printf("  %-20s %10.3f %7.1f%%", bench::primitive_names[k], 1e3 * seconds / share_of,
                100 * seconds / share_of / median);
    if (flop > 0) std::printf(" %10.1f", flop / seconds / 1e9);
    std::printf("\n");
  }
  std::printf("  %-20s %10.3f %7.1f%%\n", "everything else", 1e3 * (median - accounted),
              100 * (median - accounted) / median);
}

}  // namespace

int main(int argc, char** argv) {
  long const steps = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 20;
  if (steps < 1) {
    std::fprintf(stderr, "step: '%s' is no number of steps; give one of at least 1\n", argv[1]);
    return 2;
  }
  measure<tiny, serial>("tiny, serial", static_cast<std::size_t>(steps));
  measure<with_passes, serial>("tiny with biases and dropout, serial", static_cast<std::size_t>(steps));
  measure<tiny, dp2>("tiny, dp2", static_cast<std::size_t>(steps));
  measure<tiny, three_d>("tiny, dp2-pp2-tp2", static_cast<std::size_t>(steps));
}
