// SPDX-License-Identifier: Apache-2.0
// Text to tokens to a file; training with a learning-rate schedule and validation, and a text from the model.
#include <algorithm>
#include <cstdio>
#include <heddle/heddle.hpp>
#include <string>
#include <vector>

#include "rhyme.hpp"

namespace hd = heddle;

using model = hd::llama<hd::llama_config{
    .vocabulary = alphabet_size, .context = 32, .layers = 2, .heads = 4, .kv_heads = 2, .width = 32, .mlp = 64}>;
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::global_batch<16>> {};

namespace {

// [write]
/// Writes the tokens of a text to a file that any number of ranks can read from.
void prepare(std::string const& text, std::string const& path) {
  hd::character_vocabulary const characters(text);
  hd::token_file_writer out(path, characters.size());
  out.append(characters.encode(text).tokens());
  out.commit();  // only now is there a file of that name
}
// [/write]

// [validate]
/// The mean loss over as many whole batches of the source as there are. Collective: all ranks call it.
template <class Trainer, class Source>
double validation_loss(Trainer& trainer, Source const& source, hd::token_batch& batch) {
  hd::epoch_windows const windows(source.size(), Trainer::context, Trainer::global_batch_size);
  hd::loss_sum total;
  for (std::size_t n = 0; n < windows.batches(); ++n) {
    batch.fill(windows, source, n, trainer.data_rank());
    hd::loss_sum const one = trainer.evaluate(batch);
    total.sum += one.sum;
    total.count += one.count;
  }
  return total.mean();
}
// [/validate]

// [sample]
/// Continues a text, the likeliest character each time. Collective: all ranks call it and get the same.
template <class Trainer>
std::string continuation(Trainer& trainer, hd::character_vocabulary const& characters, std::string text,
                         std::size_t length) {
  std::vector<std::int32_t> tokens(Trainer::local_tokens);
  while (length-- > 0) {
    std::size_t const from = text.size() < Trainer::context ? 0 : text.size() - Trainer::context;
    auto const window = characters.encode(text.substr(from)).tokens();
    std::copy(window.begin(), window.end(), tokens.begin());
    auto const logits = trainer.logits(tokens);  // [micro_batch_size, context, vocabulary]
    float const* const last = logits.data() + (window.size() - 1) * characters.size();
    auto const best = std::max_element(last, last + characters.size()) - last;
    text += characters.bytes()[static_cast<std::size_t>(best)];
  }
  return text;
}
// [/sample]

}  // namespace

int main() {
  // [prepare]
  std::string const file = "heddle_example_14.bin";
  std::string text(rhyme);
  for (int copies = 0; copies < 3; ++copies) text += text;
  prepare(text, file);
  // [/prepare]
  double loss = 0;
  // [train]
  hd::character_vocabulary const characters(text);
  hd::token_file const tokens(file);    // read piece by piece, so it may be larger than memory
  hd::corpus const parts(tokens, 0.9);  // the first nine tenths to train on, the rest for validation
  hd::random_windows const sampler(parts.training.size(), model::context, 1);
  hd::cosine_schedule const rate({.peak = 1e-2, .floor = 1e-3, .warm_up = 10, .decay_end = 150});
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<model, plan> trainer{rank, {.seed = 1, .clip = 1, .optimizer = {.beta2 = 0.99, .weight_decay = 0.1}}};
    hd::token_batch batch(trainer.shape(), model::context);
    for (std::size_t step = 0; step < 150; ++step) {
      batch.fill(sampler, parts.training, step, trainer.data_rank());
      double const mean = trainer.step(batch, rate(step)).loss.mean();
      if (rank.rank() == 0 && step % 50 == 0) std::printf("step %3zu  loss %.4f\n", step, mean);
    }
    double const valid = validation_loss(trainer, parts.validation, batch);
    std::string const sample = continuation(trainer, characters, "this is the ", 60);
    if (rank.rank() != 0) return;
    std::printf("validation loss %.4f\n%s\n", valid, sample.c_str());
    loss = valid;
  });
  // [/train]
  std::remove(file.c_str());
  return loss < 0.8 ? 0 : 1;
}
