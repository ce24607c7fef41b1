// SPDX-License-Identifier: Apache-2.0
// The shortest program that trains. What stands around it makes the file that it reads.
#include <cstdio>
#include <heddle/train/text.hpp>
#include <heddle/train/token_file.hpp>

namespace {
/// corpus.bin, of the text of this file, as long as the program runs.
struct prepared {
  prepared() {
    heddle::token_file_writer out("corpus.bin", 256);
    out.append(heddle::byte_tokens(heddle::read_text(__FILE__)).tokens());
    out.commit();
  }
  ~prepared() { std::remove("corpus.bin"); }
} const corpus;
}  // namespace

// [program]
#include <heddle/heddle.hpp>
namespace hd = heddle;
using model = hd::gpt2<hd::gpt2_config{.vocabulary = 256, .context = 32, .layers = 4, .heads = 4, .width = 32}>;
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::global_batch<8>> {};
int main() {
  hd::run<plan>(hd::threads, [](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.learning_rate = 1e-3}};
    for (auto const& batch : hd::token_batches<model, plan>("corpus.bin", rank)) trainer.step(batch);
  });
}
// [/program]
