// SPDX-License-Identifier: Apache-2.0
// Several plans in one program, and a choice among them at run time: 15-choice-of-plans NAME, or all of them.
#include <cmath>
#include <cstdio>
#include <heddle/heddle.hpp>
#include <heddle/plan/plan_set.hpp>
#include <string>

#include "rhyme.hpp"

namespace hd = heddle;

// [plans]
using model = hd::llama<hd::llama_config{
    .vocabulary = alphabet_size, .context = 16, .layers = 2, .heads = 2, .kv_heads = 2, .width = 16, .mlp = 32}>;

using sequences = hd::global_batch<8>;
struct one_rank : hd::plan<sequences> {
  static constexpr std::string_view name = "one-rank";
};
struct data_tensor : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>, sequences> {
  static constexpr std::string_view name = "data-tensor";
};
struct pipelined : hd::plan<hd::mesh<hd::axis<hd::pp, 2>>, sequences, hd::accumulate<4>> {
  static constexpr std::string_view name = "pipelined";
};

using plans = hd::plan_set<one_rank, data_tensor, pipelined>;
// [/plans]

namespace {

// [train]
template <class Plan>
double train() {
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const sampler(tokens.size(), model::context, 1);
  double loss = 0;
  hd::run<Plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, Plan> trainer{rank, {.seed = 1, .learning_rate = 1e-2, .clip = 1}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 40; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() == 0) loss = mean;
    }
  });
  using ledger = hd::ledger<model, Plan>;
  std::printf("%-12s %zu ranks, at most %7zu bytes on one, loss after 40 steps %.4f\n", Plan::name.data(),
              Plan::mesh::size, ledger::peak_bytes, loss);
  return loss;
}
// [/train]

}  // namespace

int main(int argc, char** argv) try {
  double worst = 0;
  // [choose]
  auto const train_one = [&](auto plan) { worst = std::fmax(worst, train<typename decltype(plan)::type>()); };
  if (argc > 1)
    plans::choose(argv[1], train_one);  // an unknown name is an error that lists those there are
  else
    plans::for_each(train_one);
  // [/choose]
  return worst < 2.6 ? 0 : 1;
} catch (std::exception const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
