// SPDX-License-Identifier: Apache-2.0
// 02, on four ranks that also share what they would all have: optimizer state, gradients, parameters.
#include <cstdio>
#include <heddle/heddle.hpp>

#include "rhyme.hpp"

namespace hd = heddle;

using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;

// [plan]
template <std::size_t Stage>
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 4>>, hd::global_batch<16>, hd::zero<Stage>> {};
// [/plan]

// [constants]
template <std::size_t Stage>
using ledger = hd::ledger<model, plan<Stage>>;
using category = hd::memory_category;
// Stage 1 splits both moments of AdamW over the four ranks, stage 3 the parameters. (Slots are rounded up to 64 bytes,
// and the vocabulary of 25 to 28: hence "about".)
constexpr std::size_t state_0 = ledger<0>::memory(0).of(category::optimizer_state);
constexpr std::size_t state_1 = ledger<1>::memory(0).of(category::optimizer_state);
static_assert(4 * state_1 >= state_0 && 4 * state_1 < state_0 * 11 / 10);
constexpr std::size_t parameters_3 = ledger<3>::memory(0).of(category::parameters);
static_assert(4 * parameters_3 < ledger<0>::memory(0).of(category::parameters) * 11 / 10);
// What the others hold of a layer comes just before it is needed: two layers' worth of memory, not the model's.
static_assert(ledger<3>::memory(0).of(category::gathered_parameters) <
              ledger<0>::memory(0).of(category::parameters) * 3 / 5);
static_assert(ledger<3>::peak_bytes < ledger<2>::peak_bytes && ledger<1>::peak_bytes < ledger<0>::peak_bytes);
// [/constants]

template <class Plan>
double train() {
  auto const tokens = hd::character_vocabulary(rhyme).encode(rhyme);
  hd::random_windows const sampler(tokens.size(), model::context, 1);
  double loss = 0;
  hd::run<Plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, Plan> trainer{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 50; ++step) {
      batch.fill(sampler, tokens, step, trainer.data_rank());
      double const mean = trainer.step(batch).loss.mean();
      if (rank.rank() == 0) loss = mean;
    }
  });
  return loss;
}

template <std::size_t Stage>
bool report(double expected) {
  auto const m = ledger<Stage>::memory(0);
  auto const sent = ledger<Stage>::traffic(plan<Stage>::mesh::value.coordinates_of(0));
  double const loss = train<plan<Stage>>();
  std::printf("%zu  %10zu  %10zu  %10zu  %10zu  %10zu  %10zu  %.4f\n", Stage, m.of(category::parameters),
              m.of(category::gathered_parameters), m.of(category::gradients), m.of(category::optimizer_state),
              m.of(category::buckets), sent.bytes(), loss);
  return loss - expected < 1e-3 && expected - loss < 1e-3;
}

int main() {
  std::printf("%s\n", hd::describe<model, plan<3>>().c_str());
  std::printf("ZeRO parameters    gathered   gradients       state     buckets  sent a step  loss\n");
  double const alone = train<plan<0>>();
  return report<0>(alone) && report<1>(alone) && report<2>(alone) && report<3>(alone) && alone < 2 ? 0 : 1;
}
