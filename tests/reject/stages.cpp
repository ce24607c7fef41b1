// SPDX-License-Identifier: Apache-2.0
// Models that cannot be cut into the stages that a plan asks for, and parameters that two stages cannot share.
#include <heddle/backend/host.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/plan/ledger.hpp>

using namespace heddle;

using words = dim<vocab, 8>;
using width = dim<embed, 8>;
using hidden = dim<mlp, 8>;
struct blocks : dim_name<"blocks"> {};
using block = residual<sequential<named<"norm", layer_norm<width>>, named<"up", linear<width, hidden>>,
                                  named<"down", linear<hidden, width>>>>;
using in = named<"in", embedding<words, width>>;
using out = named<"out", linear<width, words, biased::no>>;
template <class... Modules>
struct model_of {
  static constexpr std::size_t context = 4;
  static constexpr std::size_t vocabulary = 8;
  using module = sequential<Modules..., cross_entropy<words>>;
};
template <class Layers, class Block = block>
using repeated = named<"h", repeat<Layers, Block>>;

struct two_stages : plan<mesh<axis<pp, 2>>> {};
struct two_parts : plan<mesh<axis<pp, 2>>, rules<shard<blocks, pp>>> {};

template <class Model, class Plan>
using parameters_of = shared_parameters<resolved<Model, Plan, host_backend>>;

#if defined(REJECT_SHARED_AXIS)  // expect: heddle::must_not_share_its_axis_with<heddle::layers>
// expect: shard<heddle::vocab, heddle::pp>
// expect: heddle::bind_one_of_the_two_to_another_axis_than<heddle::pp>
// errors: at most 3
struct refused : plan<mesh<axis<pp, 2>>, rules<shard<layers, pp>, shard<vocab, pp>>> {};
static_assert(basic_ledger<resolved<model_of<in, repeated<dim<layers, 4>>, out>, refused, host_backend>>::peak_bytes >
              0);
#elif defined(REJECT_TWO_REPEATS)   // expect: must have exactly one repeat<...> at its top level
using refused = model_of<in, named<"a", repeat<dim<blocks, 2>, block>>, named<"b", repeat<dim<blocks, 2>, block>>, out>;
static_assert(parameters_of<refused, two_parts>::count == 0);
#elif defined(REJECT_NO_LAYERS)     // expect: must have exactly one repeat<...> at its top level
static_assert(parameters_of<model_of<in, repeated<dim<blocks, 4>>, out>, two_stages>::count == 0);
#elif defined(REJECT_INNER_REPEAT)  // expect: must have exactly one repeat<...> at its top level
using refused = model_of<in, repeated<dim<layers, 4>, repeat<dim<blocks, 2>, block>>, out>;
static_assert(parameters_of<refused, two_parts>::count == 0);
#elif defined(REJECT_UNLIKE_ENDS)   // expect: all uses of the tied parameter 'Name' must agree in dimensions, start
using refused = model_of<named<"in", embedding<words, width, normal(0.02), "table">>, repeated<dim<layers, 4>>,
                         named<"out", linear<width, words, biased::no, normal(0.03), "table">>>;
static_assert(parameters_of<refused, two_stages>::count == 1);
#elif defined(REJECT_FROZEN_END)    // expect: a tied parameter is one parameter, and must be frozen in all its uses
// shows: in.weight
// shows: out.weight
using refused = model_of<frozen<named<"in", embedding<words, width, normal(0.02), "table">>>, repeated<dim<layers, 4>>,
                         named<"out", linear<width, words, biased::no, normal(0.02), "table">>>;
static_assert(parameters_of<refused, two_stages>::count == 1);
#elif defined(REJECT_SAME_NAME)     // expect: parameter 'Name' must be declared once
using refused =
    model_of<in, named<"norm", layer_norm<width>>, repeated<dim<layers, 4>>, named<"norm", layer_norm<width>>, out>;
static_assert(parameters_of<refused, two_stages>::count == 0);
#else
static_assert(parameters_of<model_of<in, repeated<dim<layers, 4>>, out>, two_stages>::count == 0);
static_assert(parameters_of<model_of<in, repeated<dim<blocks, 4>>, out>, two_parts>::count == 0);
static_assert(parameters_of<model_of<frozen<named<"in", embedding<words, width, normal(0.02), "table">>>,
                                     frozen<repeated<dim<layers, 4>>>,
                                     named<"out", frozen<linear<width, words, biased::no, normal(0.02), "table">>>>,
                            two_stages>::count == 1);
static_assert(parameters_of<model_of<named<"in", embedding<words, width, normal(0.02), "table">>,
                                     repeated<dim<layers, 4>, repeat<dim<blocks, 2>, block>>,
                                     named<"out", linear<width, words, biased::no, normal(0.02), "table">>>,
                            two_stages>::count == 1);
#endif
