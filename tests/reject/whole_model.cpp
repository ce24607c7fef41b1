// SPDX-License-Identifier: Apache-2.0
// Through the front doors, trainer and ledger: a fault of the whole model is one error at the top, not a cascade.
#include <heddle/heddle.hpp>

namespace hd = heddle;

using good = hd::gpt2<hd::gpt2_config{.vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .width = 64}>;
using bad = hd::gpt2<hd::gpt2_config{.vocabulary = 64, .context = 16, .layers = 2, .heads = 52, .width = 416}>;
struct plan : hd::plan<hd::mesh<hd::axis<hd::tp, 8>>> {};
struct in_a_kibibyte : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::zero<3>, hd::fits<hd::KiB>> {};
/// One that fits to the byte, and one that lacks a byte. Of 105216 parameters, 49984 in each of two layers and 4096 in
/// a table with two uses, a rank keeps half, and two layers while they are used: 210432 + 2 · 199936 bytes; as many of
/// reduced gradients, a layer's unreduced, and a bucket, 3/2 of all uses': 210432 + 199936 + 3/2 · 437248; two moments.
constexpr std::size_t peak = 2306240;
struct exactly : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::zero<3>, hd::fits<peak>> {};
struct by_a_byte : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::zero<3>, hd::fits<peak - 1>> {};
/// The same layers in two chunks per stage; backwards in two parts.
struct interleaved {
  static constexpr std::size_t chunks = 2;
  static constexpr void order(std::size_t, std::size_t, std::size_t micro_batches, hd::schedules::compute_order& out) {
    for (std::size_t c = 0; c < 2; ++c)
      for (std::size_t m = 0; m < micro_batches; ++m) out.forward(m, c);
    for (std::size_t c = 2; c-- > 0;)
      for (std::size_t m = 0; m < micro_batches; ++m) out.backward(m, c);
  }
};
struct in_two_parts {
  static constexpr void order(std::size_t, std::size_t, std::size_t micro_batches, hd::schedules::compute_order& out) {
    for (std::size_t m = 0; m < micro_batches; ++m) out.forward(m);
    for (std::size_t m = 0; m < micro_batches; ++m) out.backward_input(m);
    for (std::size_t m = 0; m < micro_batches; ++m) out.backward_weight(m);
  }
};
template <class Schedule>
struct scheduled : hd::plan<hd::mesh<hd::axis<hd::pp, 2>>, hd::accumulate<2>, hd::pipeline<Schedule>> {};
template <class Plan>
void construct() {
  hd::run<Plan>(hd::threads, [](auto& rank) { hd::trainer<good, Plan> const trainer{rank}; });
}
/// A backend whose numbers lie where thread ranks do not look for them.
struct elsewhere : hd::host_backend {
  struct memory : hd::host_memory {};
};
struct one : hd::plan<> {};
/// A backend that knows fp32 and fp64 alone.
struct plain : hd::host::products,
               hd::host::pointwise,
               hd::host::norms,
               hd::host::embeddings,
               hd::host::cross_entropy,
               hd::host::optimizers,
               hd::host::attentions,
               hd::host::rotary_positions,
               hd::host::random,
               hd::no_scratch {
  using memory = hd::host_memory;
};
template <hd::precision_policy Policy>
struct of_precision : hd::plan<hd::precision<Policy>> {};
/// Gradients are scattered over four ranks, or under stage 0 over none.
template <std::size_t Bytes, std::size_t Stage = 2>
struct bucketed : hd::plan<hd::mesh<hd::axis<hd::dp, 4>>, hd::zero<Stage>, hd::bucket<Bytes>> {};
struct no_loss {
  static constexpr std::size_t context = 4, vocabulary = 6;
  using module = hd::sequential<hd::named<"in", hd::embedding<hd::dim<hd::vocab, 6>, hd::dim<hd::embed, 4>>>>;
};
/// Reads a loss, as what follows one would.
struct squared : hd::primitive {
  using is_loss = void;
  static constexpr std::size_t identities = 6;
  using parameters = hd::parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : hd::kernel_traits {
    static constexpr bool keeps_input = true;
    template <class Context>
    static void forward(Context&, hd::frame<float> const&, float const* x, float* y) {
      *y = *x * *x;
    }
    template <class Context>
    static void backward(Context&, hd::frame<float> const&, float const* x, float const*, float const* dy, float* dx) {
      *dx = 2 * *x * *dy;
    }
  };
};
struct loss_inside {
  static constexpr std::size_t context = 4, vocabulary = 6;
  using v = hd::dim<hd::vocab, 6>;
  using e = hd::dim<hd::embed, 4>;
  using head = hd::sequential<hd::product<hd::dims<e>, hd::dims<v>, hd::normal(1)>, hd::cross_entropy<v>>;
  using module = hd::sequential<hd::named<"in", hd::embedding<v, e>>, hd::named<"out", head>, squared>;
};
using all_frozen = hd::with_frozen<good, "wte", "wpe", "h", "ln_f", "lm_head">;
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
#elif defined(REJECT_LEDGER)             // expect: size_of<heddle::heads, 52>, heddle::must_be_a_multiple_of<8>
// expect: must_be_a_multiple_of<8>, heddle::use_a_size_of<48, 56>
// errors: at most 3
static_assert(hd::ledger<bad, plan>::peak_bytes > 0);
#elif defined(REJECT_MEMORY)             // expect: fits<2306239>
// expect: must_not_be_less_than_the_bytes_of_a_rank<2306240>, heddle::on_pipeline_stage<0>
// expect: heddle::for_parameters<210432>, heddle::for_gathered_parameters<399872>, heddle::for_gradients<410368>
// expect: heddle::for_optimizer_state<420864>, heddle::for_buckets<655872>, heddle::for_activations<140992>
// expect: heddle::for_scratch<67712>, heddle::for_tokens<128>, heddle::split_more
// errors: at most 1
static_assert(hd::ledger<good, by_a_byte>::peak_bytes > 0);
#elif defined(REJECT_MEMORY_OF_TRAINER)  // expect: fits<1024>
// expect: must_not_be_less_than_the_bytes_of_a_rank<2306240>, heddle::on_pipeline_stage<0>
// errors: at most 1
void refused() { construct<in_a_kibibyte>(); }
#elif defined(REJECT_MEMORY_OF_RANKS)    // expect: the ranks' communicator and 'Backend' must have one memory
// expect: run the plan on ranks of that backend, or name theirs
void refused() {
  hd::run<one>(hd::threads, [](auto& rank) { hd::basic_trainer<good, one, elsewhere> const trainer{rank}; });
}
#elif defined(REJECT_NO_TF32)            // expect: 'Backend' must have a type 'tfloat32_products'
// expect: or take a precision without tf32
static_assert(hd::basic_trainer<good, of_precision<hd::tf32>, plain>::context > 0);
#elif defined(REJECT_NO_BF16)            // expect: 'Backend' must have a template 'element<dtype>'
// expect: give it their types, or take a precision that stores fp32 or fp64
static_assert(hd::basic_trainer<good, of_precision<hd::bf16_mixed>, plain>::context > 0);
#elif defined(REJECT_SMALL_BUCKET)       // expect: bucket<12>, heddle::must_be_at_least<16>
// expect: one_element_for_each_of_the_ranks_that_share_it<4>
// errors: at most 1
static_assert(hd::ledger<good, bucketed<12>>::peak_bytes > 0);
#elif defined(REJECT_CHUNKS)             // expect: trainer<Model, Plan>: the schedule must have one chunk per stage
void refused() { construct<scheduled<interleaved>>(); }
#elif defined(REJECT_SPLIT_BACKWARD)     // expect: trainer<Model, Plan>: the schedule must run whole backwards
void refused() { construct<scheduled<in_two_parts>>(); }
#elif defined(REJECT_NO_MODEL)           // expect: trainer<Model, Plan>: 'Model' must be a language model
// shows: no_model
using refused = decltype(hd::trainer<no_model, plan>::context);
#elif defined(REJECT_NO_PLAN)      // expect: trainer<Model, Plan>: 'Plan' must be a plan; derive it from heddle::plan
// shows: no_plan
using refused = decltype(hd::trainer<good, no_plan>::context);
#elif defined(REJECT_NO_LOSS)      // expect: the last module of the top level of 'module' must be a loss
// shows: no_loss
using refused = decltype(hd::trainer<no_loss, one>::context);
#elif defined(REJECT_LOSS_INSIDE)  // expect: a module that ends in a loss must be the last
// expect: put what follows it before it, or into the loss
static_assert(hd::ledger<loss_inside, one>::parameters > 0);
#elif defined(REJECT_NOTHING_TRAINED)  // expect: step: 'Model' must have a parameter that is trained
// expect: take frozen<...> off what is to be trained, or call evaluate and logits alone
// errors: at most 1
void refused() {
  hd::run<one>(hd::threads, [](auto& rank) { hd::trainer<all_frozen, one>{rank}.step({}, {}); });
}
#elif defined(REJECT_PROCESS_GROUP)    // expect: along<Axis>: 'Axis' must be an axis of the mesh
// expect: so add the axis to the mesh or name one that it has
// shows: heddle::ep
void refused() {
  hd::run<plan>(hd::threads, [](auto& rank) { rank.template along<hd::ep>().barrier(); });
}
#else
static_assert(hd::ledger<good, plan>::parameters > 0 && hd::ledger<good, exactly>::peak_bytes == peak);
static_assert(hd::ledger<good, bucketed<16>>::peak_bytes > 0 && hd::ledger<good, bucketed<4, 0>>::peak_bytes > 0);
struct alone : hd::plan<hd::bucket<1>> {};  // reduces nothing
static_assert(hd::ledger<good, alone>::peak_bytes > 0);
void evaluated() {
  hd::run<one>(hd::threads, [](auto& rank) { hd::trainer<all_frozen, one>{rank}.evaluate({}, {}); });
}
void accepted_too() { construct<scheduled<hd::gpipe>>(); }
void accepted() {
  hd::run<plan>(hd::threads, [](auto& rank) { rank.template along<hd::tp>().barrier(); });
}
#endif
