// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/residual.hpp>
#include <heddle/plan/stages.hpp>
#include <type_traits>

namespace heddle {

// The vocabulary of a plan's faults. A model and a plan that do not fit together are reported once, at the top, as a
// use of an incomplete `plan_error<…>` whose arguments say what is wrong and what would do.

/// A dimension and its size.
template <class Name, std::size_t Size>
struct size_of;
/// The rule it breaks: the ranks that would share it.
template <std::size_t Ways>
struct must_be_a_multiple_of;
/// The nearest sizes that work.
template <std::size_t... Sizes>
struct use_a_size_of;
/// The other remedy.
template <class Name>
struct or_pad_or_shard_another_dimension_than;
/// Never defined.
template <class What, class Rule, class Remedy, class Otherwise>
struct plan_error;

namespace detail {

/// The first sizes below and above that divide.
template <std::size_t Size, std::size_t Ways>
using nearest_sizes =
    std::conditional_t<(Size < Ways), use_a_size_of<Ways>, use_a_size_of<Size / Ways * Ways, (Size / Ways + 1) * Ways>>;

template <class First, class Second>
using first_fault = std::conditional_t<std::is_void_v<First>, Second, First>;

/// The fault of one dimension under a layout, or void.
template <class R, class D, std::size_t Ways, std::size_t Stored>
using dimension_fault = std::conditional_t<
    Stored % Ways == 0, void,
    plan_error<size_of<typename D::name, D::size>, must_be_a_multiple_of<Ways>, nearest_sizes<D::size, Ways>,
               or_pad_or_shard_another_dimension_than<typename D::name>>>;

template <class R, class D, class Placement>
constexpr std::size_t ways_in = ways_of(R::mesh::value, Placement::value, id_v<typename D::name>);
template <class R, class D>
constexpr std::size_t stored_size = R::stored(dims<D>::value).dim[0].stored;

template <class R, class Dims, class Placement>
struct dims_fault;
template <class R, class Placement>
struct dims_fault<R, dims<>, Placement> {
  using type = void;
};
template <class R, class Placement, class D, class... Ds>
struct dims_fault<R, dims<D, Ds...>, Placement> {
  using type = first_fault<dimension_fault<R, D, ways_in<R, D, Placement>, stored_size<R, D>>,
                           typename dims_fault<R, dims<Ds...>, Placement>::type>;
};

template <class Place>
struct op_layout {
  static constexpr layout value = Place::op.placed;
};
template <class R, class Dims>
struct own_layout {
  static constexpr layout value = place(R::mesh::value, R::rules::value, Dims::value);
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

/// What is wrong with a module under a plan, or void; and the dimensions it passes on. A walk over the declaration that
/// places nothing, so that a fault is found before any code for it exists.
template <class Module, class R, class Input>
struct module_fault {
  using place = op_place<Module, R, Input>;
  using output = typename place::output_dims;
  using op = op_layout<place>;
  using type =
      first_fault<first_fault<typename dims_fault<R, Input, op>::type, typename dims_fault<R, output, op>::type>,
                  first_fault<typename parameters_fault<R, typename Module::parameters, op>::type,
                              typename dims_fault<R, output, own_layout<R, output>>::type>>;
};
template <fixed_string N, class M, class R, class Input>
struct module_fault<named<N, M>, R, Input> : module_fault<M, R, Input> {};
template <class M, class R, class Input>
struct module_fault<residual<M>, R, Input> : module_fault<M, R, Input> {};
template <class L, class B, class R, class Input>
struct module_fault<repeat<L, B>, R, Input> {
  using block = module_fault<B, R, Input>;
  using output = typename block::output;
  using type = first_fault<typename dims_fault<R, dims<L>, own_layout<R, dims<L>>>::type, typename block::type>;
};
template <class M, class R, class Input>
struct module_fault<sequential<M>, R, Input> : module_fault<M, R, Input> {};
template <class M, class... Ms, class R, class Input>
struct module_fault<sequential<M, Ms...>, R, Input> {
  using head = module_fault<M, R, Input>;
  using tail = module_fault<sequential<Ms...>, R, typename head::output>;
  using output = typename tail::output;
  using type = first_fault<typename head::type, typename tail::type>;
};

}  // namespace detail

/// What keeps a model from running under a plan: a `plan_error<…>`, or void.
template <class R>
using fault_of_plan =
    typename detail::module_fault<typename R::model::module, typename R::modules, typename R::tokens>::type;

/// Complete only if the model can run under the plan.
template <class R, class Fault = fault_of_plan<R>>
struct legal {
  static constexpr std::size_t fault = sizeof(Fault);
};
template <class R>
struct legal<R, void> {};

}  // namespace heddle
