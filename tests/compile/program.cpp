// SPDX-License-Identifier: Apache-2.0
// The program whose compilation is measured: `tiny` under a 3D plan with ZeRO-3, with sizes that check_compile.py
// varies.
#include <cstdio>
#include <heddle/heddle.hpp>
#include <vector>

#ifndef HEDDLE_LAYERS
#define HEDDLE_LAYERS 4
#endif
#ifndef HEDDLE_MICRO_BATCHES
#define HEDDLE_MICRO_BATCHES 4
#endif
#ifndef HEDDLE_DATA_RANKS
#define HEDDLE_DATA_RANKS 2
#endif
#ifndef HEDDLE_STAGES
#define HEDDLE_STAGES 2
#endif
#ifndef HEDDLE_TENSOR_RANKS
#define HEDDLE_TENSOR_RANKS 2
#endif
#ifndef HEDDLE_ZERO
#define HEDDLE_ZERO 3
#endif

namespace hd = heddle;

using model = hd::gpt2<hd::gpt2_config{
    .vocabulary = 65, .context = 64, .layers = HEDDLE_LAYERS, .heads = 4, .width = 128, .biased = false}>;
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, HEDDLE_DATA_RANKS>, hd::axis<hd::pp, HEDDLE_STAGES>,
                                hd::axis<hd::tp, HEDDLE_TENSOR_RANKS>>,
                       hd::zero<HEDDLE_ZERO>, hd::micro_batch<1>, hd::accumulate<HEDDLE_MICRO_BATCHES>,
                       hd::pipeline<hd::one_f_one_b>> {};
static_assert(hd::ledger<model, plan>::peak_bytes < 80 * hd::GiB);

int main() {
  hd::run<plan>(hd::threads, [](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.seed = 1, .learning_rate = 1e-3, .clip = 1.0}};
    std::vector<std::int32_t> tokens(trainer.local_tokens, 1), targets(trainer.local_tokens, 2);
    auto const result = trainer.step(tokens, targets);
    if (rank.rank() == 0) std::printf("loss %.4f\n", result.loss.mean());
  });
}
