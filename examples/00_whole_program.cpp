// SPDX-License-Identifier: Apache-2.0
// All of a program: a GPT-2 learns the bytes of a file, or of this one, on eight ranks.
// [program]
#include <cstdio>
#include <heddle/heddle.hpp>
namespace hd = heddle;

using model = hd::gpt2<hd::gpt2_config{.vocabulary = 256, .context = 32, .layers = 4, .heads = 4, .width = 32}>;
using eight_ranks = hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>;
struct plan : hd::plan<eight_ranks, hd::global_batch<16>, hd::accumulate<4>, hd::pipeline<hd::one_f_one_b>> {};

static_assert(hd::ledger<model, plan>::peak_bytes < hd::MiB);  // memory of the worst rank, exact
static_assert(hd::bubble<model, plan> == hd::ratio{1, 5});     // (p-1)/(m+p-1)

int main(int argc, char** argv) {
  std::puts(hd::describe<model, plan>().c_str());
  auto const text = hd::byte_tokens(hd::read_text(argc > 1 ? argv[1] : __FILE__));
  hd::random_windows const windows(text.size(), model::context, 1);
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.learning_rate = 5e-3, .clip = 1}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 100; ++step) {
      batch.fill(windows, text, step, trainer.data_rank());
      double const loss = trainer.step(batch).loss.mean();
      if (rank.rank() == 0 && step % 20 == 0) std::printf("step %3zu  loss %.4f\n", step, loss);
    }
  });
}
// [/program]
