// SPDX-License-Identifier: Apache-2.0
// NPT-025 of shared/paper-values.csv: before training, the loss of nanoGPT's Shakespeare model is ln 65.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <heddle/heddle.hpp>
#include <vector>

namespace paper_run {

namespace hd = heddle;

namespace {

using model =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = false}>;
struct plan : hd::plan<hd::micro_batch<4>> {};

}  // namespace

TEST_CASE("the loss at the start is ln 65") {
  hd::loss_sum loss{};
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.seed = 1}};
    // 256 tokens in which every identity follows others: a full period of a congruential sequence.
    std::vector<std::int32_t> tokens(4 * 64), targets(4 * 64);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>((i * 31 + 7) % 65);
      targets[i] = static_cast<std::int32_t>((i * i + 3) % 65);
    }
    loss = trainer.evaluate(tokens, targets);
  });
  CHECK(loss.count == 4 * 64);
  // The tolerance is the row's: logits of a fresh model are small but not zero.
  CHECK(std::abs(loss.sum / static_cast<double>(loss.count) - 4.1744) < 0.05);
}

}  // namespace paper_run
