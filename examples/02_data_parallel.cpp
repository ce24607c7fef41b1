// SPDX-License-Identifier: Apache-2.0
// 01, on two ranks that share the batch.
#include <cstdio>
#include <heddle/heddle.hpp>

#include "rhyme.hpp"

namespace hd = heddle;

// [model]
using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;
// [/model]

// [plan]
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::global_batch<16>> {};
// [/plan]

// [constants]
using ledger = hd::ledger<model, plan>;
using operation = hd::comm::operation;
// Each rank keeps all parameters and half of the activations. A step sends each gradient once: in an all-reduce over n
// ranks a rank sends 2(n-1)/n elements for each of the value's. Beside it, four doubles: the number of targets, the
// squared gradient norm, the loss, and whether the ranks agree.
constexpr auto sent = ledger::traffic(plan::mesh::value.coordinates_of(0));
static_assert(sent.of(0, operation::all_reduce).bytes == 4 * ledger::parameters + 4 * 8);
static_assert(sent.bytes() == sent.of(0, operation::all_reduce).bytes);
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
