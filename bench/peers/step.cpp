// SPDX-License-Identifier: Apache-2.0
// Milliseconds of each training step, by the clock and of the process on all cores, and the loss, one step a line, as
// bench/peers/torch_step.py prints them for the same models.
//   peer-step MODEL THREADS STEPS    MODEL: tiny, gpt2-124m-64 or gpt2-124m-256; three more steps are not counted
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <heddle/heddle.hpp>
#include <string>
#include <vector>

namespace {

namespace hd = heddle;

using tiny =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = false}>;
template <std::size_t Context>
using gpt2_124m = hd::gpt2<hd::gpt2_config{.context = Context}>;
struct four : hd::plan<hd::global_batch<4>> {};
struct twelve : hd::plan<hd::global_batch<12>> {};

template <class Model, class Plan>
void measure(std::size_t team, std::size_t steps) {
  hd::run<Plan>(hd::threads.per_rank(team), [&](auto& rank) {
    hd::trainer<Model, Plan> trainer(rank, {.learning_rate = 1e-3, .clip = 1});
    std::vector<std::int32_t> tokens(trainer.local_tokens), targets(trainer.local_tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(i * 7919 % Model::vocabulary);
      targets[i] = static_cast<std::int32_t>((i + 1) * 7919 % Model::vocabulary);
    }
    for (std::size_t step = 0; step < 3 + steps; ++step) {
      auto const begin = std::chrono::steady_clock::now();
      std::clock_t const worked = std::clock();
      double const loss = trainer.step(tokens, targets).loss.mean();
      std::chrono::duration<double, std::milli> const spent = std::chrono::steady_clock::now() - begin;
      if (step < 3) continue;
      std::printf("%.3f %.3f %.4f\n", spent.count(),
                  1e3 * static_cast<double>(std::clock() - worked) / static_cast<double>(CLOCKS_PER_SEC), loss);
      std::fflush(stdout);
    }
  });
}

}  // namespace

int main(int argc, char** argv) {
  std::string const model = argc == 4 ? argv[1] : "";
  long const team = argc == 4 ? std::strtol(argv[2], nullptr, 10) : 0;
  long const steps = argc == 4 ? std::strtol(argv[3], nullptr, 10) : 0;
  if (team < 1 || steps < 1 || (model != "tiny" && model != "gpt2-124m-64" && model != "gpt2-124m-256")) {
    std::fprintf(stderr, "peer-step: takes tiny, gpt2-124m-64 or gpt2-124m-256, threads, and steps; give all three\n");
    return 2;
  }
  auto const t = static_cast<std::size_t>(team), s = static_cast<std::size_t>(steps);
  if (model == "tiny")
    measure<tiny, twelve>(t, s);
  else if (model == "gpt2-124m-64")
    measure<gpt2_124m<64>, four>(t, s);
  else
    measure<gpt2_124m<256>, four>(t, s);
}
