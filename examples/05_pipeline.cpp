// SPDX-License-Identifier: Apache-2.0
// 01, on four ranks that are stages of a pipeline.
#include <cstdio>
#include <heddle/heddle.hpp>

#include "rhyme.hpp"

namespace hd = heddle;

// [model]
using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;
// [/model]

// [plan]
struct plan
    : hd::plan<hd::mesh<hd::axis<hd::pp, 4>>, hd::global_batch<16>, hd::accumulate<8>, hd::pipeline<hd::one_f_one_b>> {
};
struct gpipe_plan
    : hd::plan<hd::mesh<hd::axis<hd::pp, 4>>, hd::global_batch<16>, hd::accumulate<8>, hd::pipeline<hd::gpipe>> {};
// [/plan]

// [constants]
using ledger = hd::ledger<model, plan>;
using gpipe_ledger = hd::ledger<model, gpipe_plan>;
constexpr auto activations = hd::memory_category::activations;
// Both fill and drain the pipeline once: (p-1)/(m+p-1) of all time is idle, with p = 4 stages and m = 8 micro-batches.
static_assert(hd::bubble<model, plan> == hd::ratio{3, 11});
static_assert(hd::bubble<model, gpipe_plan> == hd::ratio{3, 11});
// GPipe's first stage holds all 8 micro-batches, 1F1B's min(m, p) = 4, and its last stage one.
static_assert(gpipe_ledger::memory(0).of(activations) == 2 * ledger::memory(0).of(activations));
static_assert(gpipe_ledger::memory(3).of(activations) == 8 * ledger::memory(3).of(activations));
// [/constants]

int main() {
  std::printf("%s\n", hd::describe<model, plan>().c_str());
  // [show]
  std::printf("activations of stage   0        1        2        3\n");
  for (bool const is_gpipe : {true, false}) {
    std::printf("  %-14s", is_gpipe ? "gpipe" : "one_f_one_b");
    for (std::size_t s = 0; s < ledger::stages; ++s)
      std::printf("  %7zu", (is_gpipe ? gpipe_ledger::memory(s) : ledger::memory(s)).of(activations));
    std::printf("\n");
  }
  // [/show]
  // [data]
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const sampler(tokens.size(), model::context, 1);
  // [/data]
  double loss = 0;
  // [train]
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 100; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() != 0) continue;
      if (step % 20 == 0) std::printf("step %3zu  loss %.4f\n", step, mean);
      loss = mean;
    }
  });
  // [/train]
  std::printf("last      loss %.4f\n", loss);
  return loss < 1.2 ? 0 : 1;
}
