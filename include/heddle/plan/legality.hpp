// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/plan/plan_error.hpp>
#include <heddle/plan/stages.hpp>
#include <tuple>
#include <type_traits>

namespace heddle {

namespace detail {

/// The fault of one dimension under a layout, or void. Padding is zeros that no result may show: it must not lie along
/// token positions or layers, nor along a dimension that an op reads as a whole (the mean of a norm would count it).
template <class D, std::size_t Ways, std::size_t Stored, bool Paddable>
using dimension_fault = std::conditional_t<
    !Paddable && Stored != D::size,
    plan_error<size_of<typename D::name, D::size>, must_not_be_padded_to<Stored>, use_a_size_of<Stored>,
               or_take_it_out_of_padding<typename D::name>>,
    std::conditional_t<
        Stored % Ways == 0, void,
        plan_error<size_of<typename D::name, D::size>, must_be_a_multiple_of<Ways>, nearest_sizes<D::size, Ways>,
                   std::conditional_t<Paddable, or_pad_or_shard_another_dimension_than<typename D::name>,
                                      or_shard_another_dimension_than<typename D::name>>>>>;

template <class R, class D, class Placement>
constexpr std::size_t ways_in = ways_of(R::mesh::value, Placement::value, id_v<typename D::name>);
template <class R, class D>
constexpr std::size_t stored_size = R::stored(dims<D>::value).dim[0].stored;
template <class R, class D, class Placement>
constexpr bool paddable =
    !Placement::whole.has(id_v<typename D::name>) && !R::tokens::value.has(id_v<typename D::name>);

template <class R, class Dims, class Placement>
struct dims_fault;
template <class R, class Placement>
struct dims_fault<R, dims<>, Placement> {
  using type = void;
};
template <class R, class Placement, class D, class... Ds>
struct dims_fault<R, dims<D, Ds...>, Placement> {
  using type = first_fault<dimension_fault<D, ways_in<R, D, Placement>, stored_size<R, D>, paddable<R, D, Placement>>,
                           typename dims_fault<R, dims<Ds...>, Placement>::type>;
};

template <class Module, class Place>
struct op_layout {
  static constexpr layout value = Place::op.placed;
  static constexpr dimension_list whole = Module::whole;
};
template <class R, class Dims>
struct own_layout {
  static constexpr layout value = place(R::mesh::value, R::rules::value, Dims::value);
  static constexpr dimension_list whole{};
};
/// Layers are counted, not stored.
template <class R, class Layers>
struct layers_layout : own_layout<R, dims<Layers>> {
  static constexpr dimension_list whole = dims<Layers>::value;
};

/// The fault of a rule that gives the axis of the layers `L` to another dimension too, or void. Its ranks hold
/// different layers and work at different times: they cannot be parts of one op.
template <class R, class L, class Rules>
struct pipeline_axis_fault {
  using type = void;
};
template <class R, class L, class S, class... Ss>
struct pipeline_axis_fault<R, L, rules<S, Ss...>> {
  static constexpr bool shares = [] {
    std::size_t const a = R::mesh::value.index_of(id_v<typename S::axis>);
    return a != R::mesh::value.axes && own_layout<R, dims<L>>::value.is_split(a) &&
           id_v<typename S::dim> != id_v<typename L::name>;
  }();
  using type = typename std::conditional_t<
      shares,
      std::type_identity<plan_error<S, must_not_share_its_axis_with<typename L::name>,
                                    bind_one_of_the_two_to_another_axis_than<typename S::axis>>>,
      pipeline_axis_fault<R, L, rules<Ss...>>>::type;
};

template <class R, class Parameters, class Placement>
struct parameters_fault;
template <class R, class... P, class Placement>
struct parameters_fault<R, parameter_list<P...>, Placement> {
  template <class... Faults>
  struct first {
    using type = void;
  };
  template <class F, class... Rest>
  struct first<F, Rest...> {
    using type = first_fault<F, typename first<Rest...>::type>;
  };
  using type = typename first<typename dims_fault<R, typename P::dims_type, Placement>::type...>::type;
};

constexpr unsigned split_axes(layout const& l) {
  unsigned set = 0;
  for (std::size_t a = 0; a != max_axes; ++a)
    if (l.is_split(a)) set |= 1U << a;
  return set;
}

/// What is wrong with a module under a plan, or void; the dimensions it passes on; the axes that split any of its own.
/// A walk over the declaration that places nothing, so that a fault is found before any code for it exists.
template <class Module, class R, class Input>
struct module_fault {
  using place = op_place<Module, R, Input>;
  using output = typename place::output_dims;
  using op = op_layout<Module, place>;
  static constexpr unsigned axes = split_axes(op::value) | split_axes(own_layout<R, output>::value);
  using type =
      first_fault<first_fault<typename dims_fault<R, Input, op>::type, typename dims_fault<R, output, op>::type>,
                  first_fault<typename parameters_fault<R, typename Module::parameters, op>::type,
                              typename dims_fault<R, output, own_layout<R, output>>::type>>;
};
template <NamedModule M, class R, class Input>
struct module_fault<M, R, Input> : module_fault<typename M::named_module, R, Input> {};
template <class M, class R, class Input>
struct module_fault<frozen<M>, R, Input> : module_fault<M, freeze_t<R>, Input> {};
template <class M, class R, class Input>
struct module_fault<residual<M>, R, Input> : module_fault<M, R, Input> {};
template <class L, class B, class R, class Input>
struct module_fault<repeat<L, B>, R, Input> {
  using block = module_fault<B, R, Input>;
  using output = typename block::output;
  static constexpr unsigned axes = split_axes(layers_layout<R, L>::value) | block::axes;
  using type =
      first_fault<typename dims_fault<R, dims<L>, layers_layout<R, L>>::type,
                  first_fault<typename pipeline_axis_fault<R, L, typename R::rules>::type, typename block::type>>;
};
template <class M, class R, class Input>
struct module_fault<sequential<M>, R, Input> : module_fault<M, R, Input> {};
template <class M, class... Ms, class R, class Input>
struct module_fault<sequential<M, Ms...>, R, Input> {
  using head = module_fault<M, R, Input>;
  using tail = module_fault<sequential<Ms...>, R, typename head::output>;
  using output = typename tail::output;
  static constexpr unsigned axes = head::axes | tail::axes;
  using type = first_fault<typename head::type, typename tail::type>;
};

/// The fault of the first axis that splits nothing, or void. A rule for a dimension that the model lacks would leave
/// its ranks to repeat each other's work.
template <class Mesh, unsigned Used>
struct idle_axis {
  using type = void;
};
template <class Axis, class... Axes, unsigned Used>
struct idle_axis<mesh<Axis, Axes...>, Used> {
  using type = typename std::conditional_t<
      (Axis::size > 1 && (Used & 1U) == 0),
      std::type_identity<plan_error<Axis, must_split_a_dimension_of_the_model, write_a_rule_for_one_that_it_has,
                                    or_take_the_axis_out_of_the_mesh>>,
      idle_axis<mesh<Axes...>, (Used >> 1U)>>::type;
};

template <class Module>
struct first_module {
  using type = Module;
};
template <NamedModule M>
struct first_module<M> : first_module<typename M::named_module> {};
template <class M>
struct first_module<frozen<M>> : first_module<M> {};
template <class M, class... Ms>
struct first_module<sequential<M, Ms...>> : first_module<M> {};

/// The last module of the top level: it is what logits go without.
template <class Module>
struct last_module {
  using type = Module;
};
template <NamedModule M>
struct last_module<M> {
  using type = typename M::named_module;
};
template <class... Ms>
struct last_module<sequential<Ms...>> : last_module<std::tuple_element_t<sizeof...(Ms) - 1, std::tuple<Ms...>>> {};

/// The two ends of a language model. Without them a step would run, on memory that nobody has written.
template <class First, class Last>
struct language_model_ends {
  static constexpr bool reads_tokens = requires { typename First::reads_tokens; };
  static constexpr bool is_loss = requires { typename Last::is_loss; };
  static_assert(reads_tokens,
                "model: 'module' must begin with a module that reads tokens; put embedding<...> first, or a module of "
                "your own that declares reads_tokens");
  static_assert(is_loss,
                "model: the last module of the top level of 'module' must be a loss; put cross_entropy<...> there, or "
                "a module of your own that declares is_loss");
  static constexpr bool value = reads_tokens && is_loss;
};

/// The ids that one end of a model takes: those of its vocabulary, and no more than its module says that it knows.
template <class End>
constexpr std::size_t identities_of(std::size_t vocabulary) {
  if constexpr (requires { End::identities; })
    return End::identities < vocabulary ? End::identities : vocabulary;
  else
    return vocabulary;
}

template <class R, bool Complete>
struct plan_fault {
  using type = void;
};
template <class R>
struct plan_fault<R, true> {
  using modules = module_fault<typename R::model::module, typename R::modules, typename R::tokens>;
  using type = first_fault<typename modules::type,
                           typename idle_axis<typename R::mesh, modules::axes | split_axes(R::token_layout)>::type>;
};
template <class Module>
using ends_of = language_model_ends<typename first_module<Module>::type, typename last_module<Module>::type>;

}  // namespace detail

/// What keeps a model from running under a plan: a `plan_error<…>`, or void. A model without tokens or a loss is
/// refused under any plan, with a sentence.
template <class R>
using fault_of_plan = typename detail::plan_fault<R, detail::ends_of<typename R::model::module>::value>::type;

/// Can be instantiated only if the model can run under the plan.
template <class R>
struct legal : detail::without_fault<fault_of_plan<R>> {};

}  // namespace heddle
