// SPDX-License-Identifier: Apache-2.0
// A model that has learned one text learns another, with a part of it frozen: what is frozen takes no gradient, no
// optimizer state and no reduction, and stays as it was.
#include <algorithm>
#include <cstdio>
#include <heddle/heddle.hpp>
#include <string>

#include "rhyme.hpp"

namespace hd = heddle;

// [model]
using original =
    hd::gpt2<hd::gpt2_config{.vocabulary = alphabet_size, .context = 32, .layers = 4, .heads = 4, .width = 32}>;
// The table, which is the head too, positions and attention stay; norms and the feed-forward networks are tuned.
using tuned = hd::with_frozen<original, "wte", "lm_head", "wpe", "h.attn">;
// [/model]

struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::global_batch<16>, hd::zero<1>> {};

// [constants]
template <class Model>
using ledger = hd::ledger<Model, plan>;
template <class Model>
constexpr std::size_t bytes_of(hd::memory_category category) {
  return ledger<Model>::memory(0).of(category);
}
using category = hd::memory_category;
static_assert(ledger<tuned>::parameters == ledger<original>::parameters);
static_assert(ledger<tuned>::trained_parameters == 4 * (2 * 32 * 128 + 128 + 32 + 4 * 32) + 2 * 32);
static_assert(bytes_of<tuned>(category::parameters) == bytes_of<original>(category::parameters));
static_assert(bytes_of<tuned>(category::gradients) < bytes_of<original>(category::gradients) * 7 / 10);
static_assert(bytes_of<tuned>(category::optimizer_state) < bytes_of<original>(category::optimizer_state) * 7 / 10);
static_assert(bytes_of<tuned>(category::activations) < bytes_of<original>(category::activations));
// [/constants]

// [declare]
// The same word in a declaration of one's own: layers that are not trained, and in each an adapter that is.
namespace mine {

using width = hd::dim<hd::embed, 32>;
using hidden = hd::dim<hd::mlp, 64>;
using narrow = hd::dim<hd::mlp, 8>;
using characters = hd::dim<hd::vocab, alphabet_size>;

template <class Hidden>
using feed_forward =
    hd::residual<hd::sequential<hd::named<"norm", hd::rms_norm<width>>, hd::named<"in", hd::linear<width, Hidden>>,
                                hd::gelu, hd::named<"out", hd::linear<Hidden, width>>>>;
using layer =
    hd::sequential<hd::named<"mlp", hd::frozen<feed_forward<hidden>>>, hd::named<"adapter", feed_forward<narrow>>>;

struct adapted {
  static constexpr std::size_t context = 32, vocabulary = alphabet_size;
  using module = hd::sequential<hd::named<"wte", hd::frozen<hd::embedding<characters, width>>>,
                                hd::named<"h", hd::repeat<hd::dim<hd::layers, 4>, layer>>,
                                hd::named<"lm_head", hd::linear<width, characters>>, hd::cross_entropy<characters>>;
};
static_assert(hd::ledger<adapted, plan>::trained_parameters ==
              4 * (32 + 32 * 8 + 8 + 8 * 32 + 32) + 32 * alphabet_size + alphabet_size);

}  // namespace mine
// [/declare]

// [take]
/// The parameters of one trainer as the start of another, under the same plan: parts of one name lie alike.
template <class From, class To>
void take_parameters(From& from, To& to) {
  for (std::size_t n = 0; n < to.parameter_count(); ++n)
    for (std::size_t k = 0; k < from.parameter_count(); ++k) {
      auto const source = from.parameter(k), target = to.parameter(n);
      if (source.entry->name.view() == target.entry->name.view())
        std::copy_n(source.value, source.entry->size, target.value);
    }
}
// [/take]

template <class Trainer, class Tokens>
double train(Trainer& trainer, hd::random_windows const& windows, Tokens const& tokens, std::size_t steps) {
  hd::token_batch batch(trainer.shape(), original::context);
  double loss = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    batch.fill(windows, tokens, step, trainer.data_rank());
    loss = trainer.step(batch).loss.mean();
  }
  return loss;
}

int main() {
  auto const vocabulary = hd::character_vocabulary(rhyme);
  auto const first = vocabulary.encode(rhyme);
  auto const second = vocabulary.encode(std::string(rhyme.rbegin(), rhyme.rend()));  // the rhyme, backwards
  hd::random_windows const windows(first.size(), original::context, 1);
  bool good = true;
  hd::run<plan>(hd::threads, [&](auto& rank) {
    hd::trainer<original, plan> learner{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    double const learned = train(learner, windows, first, 100);

    hd::trainer<tuned, plan> tuner{rank, {.seed = 1, .learning_rate = 5e-3, .clip = 1}};
    take_parameters(learner, tuner);
    hd::token_batch other(tuner.shape(), original::context);
    other.fill(windows, second, 0, tuner.data_rank());
    double const before = tuner.evaluate(other).mean();
    train(tuner, windows, second, 100);
    double const after = tuner.evaluate(other).mean();

    bool unchanged = true, changed = true;
    for (std::size_t n = 0; n < tuner.parameter_count(); ++n) {
      auto const was = learner.parameter(n), is = tuner.parameter(n);
      bool const same = std::equal(was.value, was.value + was.entry->size, is.value);
      (is.entry->trainable ? changed : unchanged) &= same != is.entry->trainable;
    }
    if (rank.rank() != 0) return;
    std::printf("the rhyme, all trained            loss %.4f\n", learned);
    std::printf("the rhyme backwards, before       loss %.4f\n", before);
    std::printf("the rhyme backwards, tuned        loss %.4f\n", after);
    std::printf("what is frozen is unchanged: %s; what is not has changed: %s\n", unchanged ? "yes" : "no",
                changed ? "yes" : "no");
    good = unchanged && changed && after < 1.5 && after < before / 2;
  });
  std::printf("bytes of a rank           gradients  optimizer state  activations\n");
  std::printf("all trained               %9zu  %15zu  %11zu\n", bytes_of<original>(category::gradients),
              bytes_of<original>(category::optimizer_state), bytes_of<original>(category::activations));
  std::printf("as tuned                  %9zu  %15zu  %11zu\n", bytes_of<tuned>(category::gradients),
              bytes_of<tuned>(category::optimizer_state), bytes_of<tuned>(category::activations));
  return good ? 0 : 1;
}
