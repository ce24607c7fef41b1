// SPDX-License-Identifier: Apache-2.0
// repeat, with depths at which it has no, one and two values between its layers; blocks that keep them and that do not.
#include <heddle/nn/activation.hpp>
#include <heddle/nn/dropout.hpp>
#include <heddle/nn/linear.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace repeats_test {
namespace {
constexpr initializer start = normal(1);
using keeping = residual<sequential<product<dims<embed_dim>, dims<mlp_dim>, start>, gelu, linear<mlp_dim, embed_dim>>>;
/// Needs none of its values.
using keeping_nothing = sequential<bias<dims<embed_dim>>, dropout<probability{0.25}>>;
using identity = bias<dims<embed_dim>>;

template <std::size_t Depth, class Block>
void check_depth() {
  using module = repeat<dim<layers, Depth>, Block>;
  using input = activations<embed_dim>;
  subject const& one = subject_of<module, input, mesh<>, megatron_rules, tokens>();
  check_gradients(one);
  check_same(one, subject_of<module, input, mesh<axis<dp, 2>, axis<tp, 2>>, megatron_sequence_rules, tokens>(),
             "dp2 tp2, sequence rule");
}
template <class Block>
void check_depths() {
  check_depth<1, Block>();
  check_depth<2, Block>();
  check_depth<3, Block>();
  check_depth<4, Block>();
}
}  // namespace

TEST_CASE("repeat of a block that keeps its input") { check_depths<keeping>(); }
TEST_CASE("repeat of a block that keeps nothing") { check_depths<keeping_nothing>(); }
TEST_CASE("repeat of a block that works in place") { check_depths<identity>(); }
TEST_CASE("repeat inside repeat: every layer draws its own mask, every copy has its own parameters") {
  struct outer : dim_name<"outer"> {};
  check_depth<1, repeat<dim<outer, 2>, keeping_nothing>>();
  check_depth<3, repeat<dim<outer, 2>, keeping>>();
}

namespace {
std::vector<std::size_t> visited;  // layers, in the order of the forward of one rank

/// Notes which layer it is in.
struct layer_probe : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    template <class Context>
    static void forward(Context&, frame<double> const& f, double const* x, double* y) {
      visited.push_back(f.layer);
      Context::backend::template copy<Place::input_size>(x, y);
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const*, double const* dy, double* dx) {
      Context::backend::template copy<Place::input_size>(dy, dx);
    }
  };
};
}  // namespace

TEST_CASE("nested repeats number their layers row by row, inside whatever encloses them") {
  struct outer : dim_name<"outer"> {};
  visited.clear();
  run(subject_of<repeat<dim<layers, 3>, repeat<dim<outer, 2>, layer_probe>>, activations<embed_dim>, mesh<>,
                 megatron_rules, tokens>());
  // The harness encloses them in a layer 1.
  CHECK(visited == std::vector<std::size_t>{6, 7, 8, 9, 10, 11});
}

}  // namespace repeats_test
