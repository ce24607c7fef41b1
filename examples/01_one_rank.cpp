// SPDX-License-Identifier: Apache-2.0
// A GPT-2 on one rank.
#include <cstdio>
#include <heddle/heddle.hpp>

#include "rhyme.hpp"

namespace hd = heddle;

// [model]
using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;
// [/model]

// [plan]
struct plan : hd::plan<hd::global_batch<16>> {};
// [/plan]

// [constants]
static_assert(hd::ledger<model, plan>::parameters == 52704);
static_assert(hd::ledger<model, plan>::peak_bytes < 6 * hd::MiB);
// [/constants]

int main() {
  std::printf("%s\n", hd::describe<model, plan>().c_str());
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
