// SPDX-License-Identifier: Apache-2.0
#include <heddle/models/gpt2.hpp>
#include <heddle/models/with_frozen.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/rotary.hpp>
#include <heddle/plan/parameters.hpp>
#include <heddle/tensor/no_scratch.hpp>

using namespace heddle;

using embed_dim = dim<embed, 16>;
using mlp_dim = dim<mlp, 64>;
using vocab_dim = dim<vocab, 32>;
using to_mlp = linear<embed_dim, mlp_dim>;
using to_embed = linear<mlp_dim, embed_dim>;
using block = residual<sequential<named<"up", to_mlp>, named<"down", to_embed>>>;
struct no_backend : no_scratch {};
struct tp_2 : plan<mesh<axis<tp, 2>>> {};
struct pp_2 : plan<mesh<axis<pp, 2>>> {};

/// A model of token ids, some modules, and a loss.
template <class... Modules>
struct model_of {
  static constexpr std::size_t context = 8, vocabulary = 32;
  using module = sequential<named<"table", embedding<vocab_dim, embed_dim>>, Modules...,
                            named<"head", linear<embed_dim, vocab_dim>>, cross_entropy<vocab_dim>>;
};
template <class Model, class Plan>
using on = resolved<Model, Plan, no_backend>;
template <class Module, class Input>
constexpr std::size_t uses = placed<Module, typename on<model_of<>, tp_2>::modules, Input>::uses.size();
template <class Model>
constexpr std::size_t parameters = stage_parameters<on<Model, tp_2>, stage_kind::whole>::count;

using x = dims<dim<batch, 2>, dim<sequence, 8>, embed_dim>;
using head_3 = dims<dim<batch, 2>, dim<sequence, 8>, dim<heads, 2>, dim<qkv, 3>, dim<head_dim, 3>>;
using head_4 = dims<dim<batch, 2>, dim<sequence, 8>, dim<heads, 2>, dim<qkv, 3>, dim<head_dim, 4>>;
template <class HeadDim>
using turned = rotary<dim<sequence, 8>, dim<heads, 2>, 1, HeadDim>;

template <initializer Init, fixed_string Tie>
using tied_head = named<"again", sequential<named<"out", linear<embed_dim, vocab_dim, biased::no, Init, Tie>>,
                                            named<"in", linear<vocab_dim, embed_dim, biased::no>>>>;
template <fixed_string Tie>
using tied_model = model_of<tied_head<normal(0.02), Tie>, named<"other", tied_head<normal(0.02), Tie>>>;

using tied_in = named<"in", linear<embed_dim, vocab_dim, biased::no, normal(0.02), "shared">>;
using tied_out = named<"out", linear<embed_dim, vocab_dim, biased::no, normal(0.02), "shared">>;
/// Two uses of one parameter.
template <class In, class Out>
using two_uses =
    sequential<In, named<"back", linear<vocab_dim, embed_dim>>, Out, named<"again", linear<vocab_dim, embed_dim>>>;
using small_gpt = gpt2<gpt2_config{.vocabulary = 32, .context = 8, .layers = 2, .heads = 2, .width = 16}>;

template <std::size_t Length>
constexpr fixed_string<Length + 1> long_name = [] {
  char text[Length + 1]{};
  for (std::size_t i = 0; i != Length; ++i) text[i] = static_cast<char>('a' + i % 26);
  return fixed_string<Length + 1>(text);
}();
// With ".weight": 95 characters and 96.
template <std::size_t Length>
using of_long_name = named<long_name<Length / 2>, sequential<named<long_name<Length - Length / 2 - 1>, to_mlp>>>;

#if defined(REJECT_RESIDUAL)  // expect: residual<Branch>: the output of 'Branch' must have the dimensions of its input
constexpr std::size_t refused = uses<residual<to_mlp>, x>;
#elif defined(REJECT_REPEAT)        // expect: repeat<Layers, Block>: the output of 'Block' must have the dimensions of
constexpr std::size_t refused = uses<repeat<dim<layers, 2>, to_mlp>, x>;
#elif defined(REJECT_LINEAR)        // expect: the input's last dimensions must be 'In', in name, size and order
// shows: heddle::dim<heddle::mlp, 64>
constexpr std::size_t refused = uses<to_embed, x>;
#elif defined(REJECT_LINEAR_SIZE)   // expect: the input's last dimensions must be 'In', in name, size and order
// shows: heddle::dim<heddle::embed, 24>
constexpr std::size_t refused = uses<linear<dim<embed, 24>, mlp_dim>, x>;
#elif defined(REJECT_NORM)          // expect: the input's last dimensions must be 'In', in name, size and order
constexpr std::size_t refused = uses<layer_norm<mlp_dim>, x>;
#elif defined(REJECT_NOT_A_MODULE)  // expect: 'Module' must be a module; derive it from heddle::primitive
// shows: no_backend
constexpr std::size_t refused = uses<no_backend, x>;
#elif defined(REJECT_EMPTY)         // expect: sequential<Modules...>: must have at least one module
constexpr std::size_t refused = sizeof(sequential<>);
#elif defined(REJECT_SAME_NAME)     // expect: parameter 'Name' must be declared once
constexpr std::size_t refused = parameters<model_of<named<"layer", to_mlp>, named<"layer", to_embed>>>;
#elif defined(REJECT_LONG_NAME)     // expect: 'Name' and those inside joined by points, must have at most 95 characters
constexpr std::size_t refused = uses<of_long_name<89>, x>;
#elif defined(REJECT_LONG_PARAMETER)  // expect: parameter<Name, ...>: 'Name' must have at most 95 characters
constexpr std::size_t refused = sizeof(parameter<long_name<96>, dims<embed_dim>, zeros, false>);
#elif defined(REJECT_TIED_UNLIKE)     // expect: all uses of the tied parameter 'Name' must agree
constexpr std::size_t refused =
    parameters<model_of<tied_head<normal(0.02), "shared">, named<"other", tied_head<zeros, "shared">>>>;
#elif defined(REJECT_FROZEN_NOTHING)  // expect: frozen<Module>: 'Module' must have a parameter
// shows: activation
constexpr std::size_t refused = uses<frozen<gelu>, x>;
#elif defined(REJECT_TIED_FROZEN)     // expect: a tied parameter is one parameter, and must be frozen in all its uses
// expect: put both in frozen<...>, or neither
// shows: in.weight
// shows: out.weight
constexpr std::size_t refused = parameters<model_of<two_uses<tied_in, frozen<tied_out>>>>;
#elif defined(REJECT_FROZEN_PART)     // expect: must be the name of a module within 'Model'
// shows: h.mpl
constexpr std::size_t refused = with_frozen<small_gpt, "wte", "h.mpl">::context;
#elif defined(REJECT_NO_FROZEN_PART)  // expect: with_frozen<Model, Parts...>: 'Parts' must have a name
constexpr std::size_t refused = with_frozen<small_gpt>::context;
#elif defined(REJECT_LAYERS_WITHOUT_REPEAT)  // expect: must have exactly one repeat<
constexpr std::size_t refused = stage_partition<on<model_of<block>, pp_2>>::stages;
#elif defined(REJECT_TWO_REPEATS)            // expect: must have exactly one repeat<
constexpr std::size_t refused =
    stage_partition<on<model_of<repeat<dim<layers, 2>, block>, repeat<dim<layers, 4>, block>>, pp_2>>::stages;
#elif defined(REJECT_CERTAIN_DROPOUT)        // expect: dropout<P>: 'P' must be in [0, 1)
constexpr std::size_t refused = uses<dropout<probability{1.0}>, x>;
#elif defined(REJECT_NEGATIVE_DROPOUT)       // expect: dropout<P>: 'P' must be in [0, 1)
constexpr std::size_t refused = uses<dropout<probability{-0.25}>, x>;
#elif defined(REJECT_ODD_HEAD_DIM)           // expect: 'HeadDim' must be even, since it is rotated in pairs
// shows: heddle::dim<heddle::head_dim, 3>
constexpr std::size_t refused = uses<turned<dim<head_dim, 3>>, head_3>;
#elif defined(REJECT_WIDTH_OF_HEADS)         // expect: config_width<64>, heddle::must_be_a_multiple_of_heads<7>
// expect: use_a_width_of<63, 70>
constexpr std::size_t refused = sizeof(gpt2<gpt2_config{.heads = 7, .width = 64}>::module);
#elif defined(REJECT_NO_VOCABULARY)          // expect: gpt2<config>: 'vocabulary', 'context', 'layers'
constexpr std::size_t refused = sizeof(gpt2<gpt2_config{.vocabulary = 0}>::module);
#elif defined(REJECT_NO_HEADS)               // expect: gpt2<config>: 'vocabulary', 'context', 'layers'
constexpr std::size_t refused = sizeof(gpt2<gpt2_config{.heads = 0}>::module);
#else
static_assert(uses<block, x> == 4 && uses<repeat<dim<layers, 2>, block>, x> == 4);
static_assert(uses<turned<dim<head_dim, 4>>, head_4> == 0 && uses<dropout<probability{0.25}>, x> == 0);
static_assert(parameters<model_of<named<"a", to_mlp>, named<"b", to_embed>>> == 7);
static_assert(uses<of_long_name<88>, x> == 2);
static_assert(sizeof(parameter<long_name<95>, dims<embed_dim>, zeros, false>) == 1);
static_assert(uses<frozen<sequential<to_mlp, gelu>>, x> == 2);
static_assert(parameters<model_of<two_uses<frozen<tied_in>, frozen<tied_out>>>> == 8);
static_assert(with_frozen<small_gpt, "wpe", "h.mlp">::context == 8);
static_assert(parameters<tied_model<"shared">> == 6 && parameters<tied_model<"">> == 7);
static_assert(stage_partition<on<model_of<repeat<dim<layers, 2>, block>>, pp_2>>::stages == 2);
#endif
