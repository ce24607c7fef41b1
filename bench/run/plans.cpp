// SPDX-License-Identifier: Apache-2.0
// A training step under plans: time, tokens per second, and the memory that became resident against what the ledger
// says. Ranks are threads, so with more ranks than cores a plan shows its costs and not its gain.
//   bench-plans [Google Benchmark's options]
//   bench-plans --lines PLAN     steps of one plan without end, the milliseconds of each on a line: for pairs in turn
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <heddle/heddle.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rates.hpp"

namespace {

namespace hd = heddle;

/// nanoGPT's Shakespeare shape for a CPU.
using tiny =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = false}>;
using gpt2_124m = hd::gpt2<hd::gpt2_config{.context = 64}>;

using two = hd::mesh<hd::axis<hd::dp, 2>>;
template <std::size_t Batch>
struct serial : hd::plan<hd::global_batch<Batch>> {};
struct chunks_of_logits : hd::plan<hd::global_batch<4>, hd::logit_chunk<16 * hd::MiB>> {};
template <std::size_t Batch, int Stage>
struct data_parallel : hd::plan<two, hd::zero<Stage>, hd::global_batch<Batch>> {};
struct tensor_parallel : hd::plan<hd::mesh<hd::axis<hd::tp, 2>>, hd::global_batch<12>> {};
struct three_d : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::global_batch<12>,
                          hd::accumulate<3>> {};

/// Bytes of this process that are in memory; 0 where the system does not say.
double resident() {
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long size = 0, pages = 0;
  int const read = std::fscanf(file, "%lu %lu", &size, &pages);
  std::fclose(file);
  return read == 2 ? static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

/// What --lines can run.
std::vector<std::pair<std::string, std::function<void()>>> endless;

/// Calls `work(rank, allocated, step)` on every rank, after steps that warm it up; `step()` takes one.
template <class Model, class Plan, class Work>
void on_ranks(std::size_t threads, Work work) {
  using trainer_type = hd::trainer<Model, Plan>;
  hd::run<Plan>(hd::threads.per_rank(threads), [&](auto& rank) {
    trainer_type trainer(rank, {.clip = 1.0});
    std::vector<std::int32_t> tokens(trainer_type::local_tokens), targets(trainer_type::local_tokens);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>(i * 7 % Model::vocabulary);
      targets[i] = static_cast<std::int32_t>((i * 7 + 7) % Model::vocabulary);
    }
    for (int warm_up = 0; warm_up < 3; ++warm_up) trainer.step(tokens, targets);
    work(rank, trainer.allocated().total(), [&] { trainer.step(tokens, targets); });
  });
}

template <class Model, class Plan>
void print_steps(std::size_t threads) {
  on_ranks<Model, Plan>(threads, [](auto& rank, std::size_t, auto step) {
    for (;;) {
      auto const begin = std::chrono::steady_clock::now();
      step();
      if (rank.rank() != 0) continue;
      std::printf("%.3f\n",
                  std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
      std::fflush(stdout);
    }
  });
}

template <class Model, class Plan>
void step(std::string const& name, std::size_t threads, benchmark::IterationCount steps) {
  endless.emplace_back(name, [threads] { print_steps<Model, Plan>(threads); });
  benchmark::RegisterBenchmark(("step/" + name).c_str(),
                               [threads](benchmark::State& state) {
                                 double const before = resident();
                                 std::atomic<std::size_t> allocated = 0;
                                 double after = 0;
                                 on_ranks<Model, Plan>(threads, [&](auto& rank, std::size_t bytes, auto step) {
                                   allocated += bytes;
                                   if (rank.rank() == 0) {
                                     for (auto _ : state) step();
                                     after = resident();
                                   } else {
                                     for (benchmark::IterationCount s = 0; s < state.max_iterations; ++s) step();
                                   }
                                   rank.world().barrier();  // so that all ranks' memory was there to be counted
                                 });
                                 state.counters["tokens"] =
                                     benchmark::Counter(static_cast<double>(Plan::global_batch_size * Model::context),
                                                        benchmark::Counter::kIsIterationInvariantRate);
                                 state.counters["ledger_bytes"] = static_cast<double>(allocated);
                                 state.counters["resident_bytes"] = after - before;
                                 state.counters["threads"] = static_cast<double>(Plan::mesh::size * threads);
                               })
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime()
      ->Iterations(steps);
}

}  // namespace

int main(int argc, char** argv) {
  step<gpt2_124m, serial<4>>("gpt2-124m serial", 1, 2);
  step<gpt2_124m, chunks_of_logits>("gpt2-124m serial, logits in 4 chunks", 1, 2);
  step<gpt2_124m, serial<4>>("gpt2-124m serial, 2 threads", 2, 2);
  step<gpt2_124m, data_parallel<4, 0>>("gpt2-124m dp2", 1, 2);
  step<gpt2_124m, data_parallel<4, 3>>("gpt2-124m dp2 zero 3", 1, 2);
  step<tiny, serial<12>>("tiny serial", 1, 40);
  step<tiny, serial<12>>("tiny serial, 2 threads", 2, 40);
  step<tiny, data_parallel<12, 0>>("tiny dp2", 1, 40);
  step<tiny, data_parallel<12, 1>>("tiny dp2 zero 1", 1, 40);
  step<tiny, data_parallel<12, 2>>("tiny dp2 zero 2", 1, 40);
  step<tiny, data_parallel<12, 3>>("tiny dp2 zero 3", 1, 40);
  step<tiny, tensor_parallel>("tiny tp2", 1, 40);
  step<tiny, three_d>("tiny dp2-pp2-tp2", 1, 20);
  if (argc == 3 && std::string_view(argv[1]) == "--lines") {
    for (auto const& [name, run] : endless)
      if (name == argv[2]) run();
    std::fprintf(stderr, "bench-plans: --lines: there is no plan '%s'; --benchmark_list_tests shows them\n", argv[2]);
    return 2;
  }
  return bench::run(argc, argv);
}
