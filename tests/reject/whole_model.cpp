// SPDX-License-Identifier: Apache-2.0
// Through the front doors, trainer and ledger: a fault of the whole model is one error at the top, not a cascade.
#include <heddle/heddle.hpp>

namespace hd = heddle;

using good = hd::gpt2<hd::gpt2_config{.vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .width = 64}>;
using bad = hd::gpt2<hd::gpt2_config{.vocabulary = 64, .context = 16, .layers = 2, .heads = 52, .width = 416}>;
struct plan : hd::plan<hd::mesh<hd::axis<hd::tp, 8>>> {};
struct one : hd::plan<> {};
struct no_loss {
  static constexpr std::size_t context = 4, vocabulary = 6;
  using module = hd::sequential<hd::named<"in", hd::embedding<hd::dim<hd::vocab, 6>, hd::dim<hd::embed, 4>>>>;
};
struct no_model {};
struct no_plan {};

#if defined(REJECT_TRAINER)  // expect: size_of<heddle::heads, 52>, heddle::must_be_a_multiple_of<8>
// expect: must_be_a_multiple_of<8>, heddle::use_a_size_of<48, 56>
// errors: at most 3
void refused() {
  hd::run<plan>(hd::threads, [](auto& rank) {
    hd::trainer<bad, plan> trainer{rank, {.seed = 1}};
    (void)trainer.steps();
  });
}
#elif defined(REJECT_LEDGER)         // expect: size_of<heddle::heads, 52>, heddle::must_be_a_multiple_of<8>
// expect: must_be_a_multiple_of<8>, heddle::use_a_size_of<48, 56>
// errors: at most 3
static_assert(hd::ledger<bad, plan>::peak_bytes > 0);
#elif defined(REJECT_NO_MODEL)       // expect: trainer<Model, Plan>: 'Model' must be a language model
// shows: no_model
using refused = decltype(hd::trainer<no_model, plan>::context);
#elif defined(REJECT_NO_PLAN)        // expect: trainer<Model, Plan>: 'Plan' must be a plan; derive it from heddle::plan
// shows: no_plan
using refused = decltype(hd::trainer<good, no_plan>::context);
#elif defined(REJECT_NO_LOSS)        // expect: the last module of the top level of 'module' must be a loss
// shows: no_loss
using refused = decltype(hd::trainer<no_loss, one>::context);
#elif defined(REJECT_PROCESS_GROUP)  // expect: along<Axis>: 'Axis' must be an axis of the mesh
// shows: heddle::ep
void refused() {
  hd::run<plan>(hd::threads, [](auto& rank) { rank.template along<hd::ep>().barrier(); });
}
#else
static_assert(hd::ledger<good, plan>::parameters > 0);
void accepted() {
  hd::run<plan>(hd::threads, [](auto& rank) { rank.template along<hd::tp>().barrier(); });
}
#endif
