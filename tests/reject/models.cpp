// SPDX-License-Identifier: Apache-2.0
// What has no tokens, no loss, or nothing that an axis could split would run, on memory that nobody has written or on
// every rank alike.
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/plan/legality.hpp>
#include <heddle/tensor/no_scratch.hpp>

namespace hd = heddle;

template <class... Modules>
struct model_of {
  static constexpr std::size_t context = 4, vocabulary = 6;
  using module = hd::sequential<Modules...>;
};
using width = hd::dim<hd::embed, 4>;
using words = hd::dim<hd::vocab, 6>;
using in = hd::named<"in", hd::embedding<words, width>>;
using out = hd::named<"out", hd::linear<width, words, hd::biased::no>>;
using loss = hd::named<"loss", hd::cross_entropy<words>>;
using gpt2 = hd::gpt2<hd::gpt2_config{.vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .width = 64}>;
using llama = hd::llama<hd::llama_config{
    .vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .kv_heads = 8, .width = 64, .mlp = 64}>;

using tp_2 = hd::mesh<hd::axis<hd::tp, 2>>;
struct one : hd::plan<> {};
/// Llama's feed-forward network has this dimension, GPT-2's has not.
struct by_gate_up : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>,
                             hd::rules<hd::shard<hd::batch, hd::dp>, hd::shard<hd::gate_up, hd::tp>>> {};
struct by_sequence : hd::plan<tp_2, hd::rules<hd::shard<hd::sequence, hd::tp>>> {};  // no parameter, no token
struct by_batch : hd::plan<tp_2, hd::rules<hd::shard<hd::batch, hd::tp>>> {};
struct by_layers : hd::plan<tp_2, hd::rules<hd::shard<hd::layers, hd::tp>>> {};
struct by_vocabulary : hd::plan<tp_2, hd::rules<hd::shard<hd::vocab, hd::tp>>> {};
/// The second rule for `tp` finds nothing; the first one does.
struct by_both : hd::plan<tp_2, hd::rules<hd::shard<hd::mlp, hd::tp>, hd::shard<hd::gate_up, hd::tp>>> {};

struct no_backend : hd::no_scratch {};
template <class Model, class Plan>
using check = hd::legal<hd::resolved<Model, Plan, no_backend>>;

#if defined(REJECT_NO_LOSS)  // expect: the last module of the top level of 'module' must be a loss
// shows: heddle::product<
// errors: at most 1
constexpr auto refused = sizeof(check<model_of<in, out>, one>);
#elif defined(REJECT_INNER_LOSS)    // expect: the last module of the top level of 'module' must be a loss
// errors: at most 1
constexpr auto refused = sizeof(check<model_of<in, hd::named<"head", hd::sequential<out, loss>>>, one>);
#elif defined(REJECT_NO_TOKENS)     // expect: 'module' must begin with a module that reads tokens
// shows: heddle::dropout<
// errors: at most 1
constexpr auto refused = sizeof(check<model_of<hd::dropout<hd::probability{0.5}>, in, out, loss>, one>);
#elif defined(REJECT_NO_ENDS)       // expect: 'module' must begin with a module that reads tokens
// errors: at most 2
constexpr auto refused = sizeof(check<model_of<out>, one>);
#elif defined(REJECT_FOREIGN_RULE)  // expect: axis<heddle::tp, 2>, heddle::must_split_a_dimension_of_the_model
// shows: heddle::write_a_rule_for_one_that_it_has, heddle::or_take_the_axis_out_of_the_mesh
// errors: at most 1
constexpr auto refused = sizeof(check<gpt2, by_gate_up>);
#elif defined(REJECT_NO_LAYERS)     // expect: axis<heddle::tp, 2>, heddle::must_split_a_dimension_of_the_model
// errors: at most 1
constexpr auto refused = sizeof(check<model_of<in, out, loss>, by_layers>);
#else
constexpr auto accepted =
    sizeof(check<model_of<in, out, loss>, one>) + sizeof(check<llama, by_gate_up>) + sizeof(check<gpt2, by_sequence>) +
    sizeof(check<model_of<hd::named<"body", hd::sequential<in, out>>, hd::cross_entropy<words>>, one>) +
    sizeof(check<gpt2, by_batch>) + sizeof(check<gpt2, by_layers>) + sizeof(check<gpt2, by_vocabulary>) +
    sizeof(check<gpt2, by_both>);
static_assert(accepted > 0);
#endif
