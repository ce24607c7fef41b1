// SPDX-License-Identifier: Apache-2.0
// Data, pipeline and tensor parallelism with the sequence rule, at once: eight ranks.
#include <cstdio>
#include <heddle/heddle.hpp>

#include "rhyme.hpp"

namespace hd = heddle;

// [declare]
using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;

struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::global_batch<16>,
                       hd::accumulate<4>, hd::pipeline<hd::one_f_one_b>> {};

static_assert(hd::ledger<model, plan>::peak_bytes < hd::MiB);  // memory of the worst rank, exact
static_assert(hd::bubble<model, plan> == hd::ratio{1, 5});     // (p-1)/(m+p-1)
// [/declare]

int main() {
  std::printf("%s\n", hd::describe<model, plan>().c_str());
  // [train]
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);  // each character's number, 0 … alphabet_size-1
  hd::random_windows const sampler(tokens.size(), model::context, 1);
  double loss = 0;
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 100; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() == 0 && step % 20 == 0) std::printf("step %3zu  loss %.4f\n", step, mean);
      if (rank.rank() == 0) loss = mean;
    }
  });
  // [/train]
  std::printf("last      loss %.4f\n", loss);
  return loss < 1.2 ? 0 : 1;
}
