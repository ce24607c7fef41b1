// SPDX-License-Identifier: Apache-2.0
// Short chains in which each rule of a composition's memory is met alone: values that share a buffer in place, values
// that are kept, areas that alternate, cotangents that pass on their pointer.
#include <cmath>
#include <heddle/nn/activation.hpp>
#include <heddle/nn/dropout.hpp>
#include <heddle/nn/linear.hpp>
#include <type_traits>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace chains_test {
namespace {
constexpr initializer start = normal(1);
using up = product<dims<embed_dim>, dims<mlp_dim>, start>;
using down = product<dims<mlp_dim>, dims<embed_dim>, start>;
using drop = dropout<probability{0.25}>;
/// A user's own module: y = e^x / 4, which knows its derivative from its output.
template <class Whole = dims<>>
struct exponential : primitive {
  using parameters = parameter_list<>;
  static constexpr dimension_list whole = Whole::value;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_output = true;
    template <class Context>
    static void forward(Context&, frame<double> const&, double const* x, double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = std::exp(x[i]) / 4;
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const* y, double const* dy, double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = dy[i] * y[i];
    }
  };
};

/// What does nothing, says so, and has a parameter, other dimensions, or a constant, which is 0.
template <class Parameters, class Output>
struct nothing : primitive {
  using parameters = Parameters;
  template <class Input>
  using output = std::conditional_t<std::is_void_v<Output>, Input, Output>;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool identity = true;
    static constexpr bool in_place = true;
    static constexpr bool identity_cotangent = true;
    static constexpr bool adds_constant = true;
    template <class Context>
    static void forward(Context& c, frame<double> const& f, double const* x, double* y) {
      constant_onto(c, f, x, y);
    }
    template <class Context>
    static void constant_onto(Context&, frame<double> const&, double const* base, double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = base == nullptr ? 0 : base[i];
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const*, double const* dy, double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = dy[i];
    }
  };
};
template <class... Modules>
using on_one_rank =
    placed<sequential<Modules...>, module_plan<mesh<>, megatron_rules, double, padding<>, tokens, host_backend>,
           activations<embed_dim>>;

using no_drop = dropout<probability{0}>;
using embed_bias = bias<dims<embed_dim>>;
using mlp_bias = bias<dims<mlp_dim>>;

/// On one rank against central differences, and under the mesh that redistributes most.
template <class Module, class Input = activations<embed_dim>>
void check_chain() {
  subject const& one = subject_of<Module, Input, mesh<>, megatron_rules, tokens>();
  check_gradients(one);
  check_same(one, subject_of<Module, Input, mesh<axis<dp, 2>, axis<tp, 2>>, megatron_sequence_rules, tokens>(),
             "dp2 tp2, sequence rule");
}
}  // namespace

TEST_CASE("in place: bias first, in the middle, last; several in a row") {
  check_chain<sequential<embed_bias, up, mlp_bias, drop, gelu>>();
  check_chain<sequential<up, mlp_bias, drop, down, embed_bias, drop>>();
  check_chain<sequential<embed_bias, drop, named<"second", embed_bias>>>();
  check_chain<sequential<gelu, embed_bias>>();
}
TEST_CASE("the identity as cotangent: alone, first, last, in a row") {
  check_chain<sequential<no_drop>>();
  check_chain<sequential<embed_bias>>();
  check_chain<sequential<no_drop, embed_bias, no_drop>>();
  check_chain<sequential<no_drop, embed_bias, gelu, no_drop, named<"second", embed_bias>>>();
  check_chain<sequential<up, no_drop, mlp_bias, no_drop, down, no_drop>>();
}
TEST_CASE("an identity is left out, but not with a parameter or other dimensions") {
  using plain = nothing<parameter_list<>, void>;
  using owner = nothing<parameter_list<parameter<"unused", dims<mlp_dim>, start, true>>, void>;
  using renamed = nothing<parameter_list<>, activations<dim<embed, 12>>>;
  static_assert(on_one_rank<up, plain, gelu>::count == 2);
  static_assert(on_one_rank<up, owner, gelu>::uses.size() == 2);
  static_assert(std::is_same_v<on_one_rank<up, renamed>::output, activations<dim<embed, 12>>>);
  check_chain<sequential<up, plain, gelu, down>>();
  check_chain<sequential<plain, up, plain>>();
}
TEST_CASE("values that nobody keeps alternate between two areas, whatever their sizes") {
  // A linear map that keeps nothing: its backward needs neither input nor output.
  check_chain<sequential<drop, embed_bias, drop, named<"second", embed_bias>, drop>>();
  check_chain<sequential<up, drop, mlp_bias, silu, drop, down, embed_bias, drop, silu, drop>>();
}
TEST_CASE("residual: around one op, around one that works in place, around the identity's cotangent, nested") {
  check_chain<residual<gelu>>();
  check_chain<residual<embed_bias>>();
  check_chain<residual<drop>>();
  check_chain<residual<no_drop>>();
  check_chain<residual<residual<sequential<up, gelu, down, embed_bias>>>>();
  check_chain<
      sequential<residual<embed_bias>, residual<drop>, residual<no_drop>, residual<named<"second", embed_bias>>>>();
}
TEST_CASE("residual around a module whose output its backward reads") {
  check_chain<exponential<>>();
  check_chain<residual<exponential<>>>();
  check_chain<sequential<residual<sequential<silu, exponential<>>>, embed_bias, drop>>();
  check_chain<sequential<exponential<>, embed_bias, gelu, exponential<>>>();
  check_chain<repeat<dim<layers, 3>, sequential<silu, exponential<>>>>();
}
TEST_CASE("the same where the output is kept in the op's own layout") {
  // Needs the sequence whole, as attention does: under the sequence rule its input and output are redistributed.
  using whole = exponential<dims<sequence_dim>>;
  check_chain<residual<sequential<silu, whole>>>();
  check_chain<repeat<dim<layers, 3>, sequential<whole, silu, whole>>>();
}

}  // namespace chains_test
