// SPDX-License-Identifier: Apache-2.0
// Which passes over memory a composition makes: biases, residual sums and dropouts that cost none of their own, and
// where a pending sum of ranks forbids that.
#include <heddle/nn/activation.hpp>
#include <heddle/nn/dropout.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>
#include <string>
#include <vector>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace fused_test {
namespace {

/// What this rank called, in order.
thread_local std::string calls;

template <class... P>
std::string terms(P const*... p) {
  return "(" + std::to_string((0 + ... + (p != nullptr ? 1 : 0))) + ") ";
}

/// The host backend, which says what it is asked for; in brackets the terms of a sum.
struct telling_backend : host_backend {
  template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B>
  static void product(double const* a, double const* b, double* c, double* = nullptr) {
    calls += "product ";
    host_backend::product<M, N, K, A, B>(a, b, c);
  }
  template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B>
  static void product_accumulate(double const* a, double const* b, double* c, double* = nullptr) {
    calls += A ? "weight_gradient " : "product_accumulate ";
    host_backend::product_accumulate<M, N, K, A, B>(a, b, c);
  }
  template <std::size_t Rows, std::size_t Width, class... In>
  static void biased_sum(double const* bias, double* y, In const*... in) {
    calls += "biased_sum" + terms(in...);
    host_backend::biased_sum<Rows, Width>(bias, y, in...);
  }
  template <std::size_t Rows, std::size_t Width>
  static void bias_gradient(double const* dy, double* db, double* = nullptr) {
    calls += "bias_gradient ";
    host_backend::bias_gradient<Rows, Width>(dy, db);
  }
  template <std::size_t N>
  static void add(double const* x, double const* y, double* out) {
    calls += "add ";
    host_backend::add<N>(x, y, out);
  }
  template <std::size_t N>
  static void add_to(double const* x, double* out) {
    calls += "add_to ";
    host_backend::add_to<N>(x, out);
  }
  template <std::size_t N>
  static void copy(double const* x, double* out) {
    if (x != out) calls += "copy ";
    host_backend::copy<N>(x, out);
  }
  template <activation_kind Kind, std::size_t N>
  static void activation(double const* x, double* y) {
    calls += "activation ";
    host_backend::activation<Kind, N>(x, y);
  }
  template <activation_kind Kind, std::size_t N>
  static void activation_backward(double const* x, double const* dy, double* dx) {
    calls += "activation_backward ";
    host_backend::activation_backward<Kind, N>(x, dy, dx);
  }
  template <std::size_t Rows, std::size_t Width, class... P>
  static void layer_norm(P... p) {
    calls += "norm ";
    host_backend::layer_norm<Rows, Width>(p...);
  }
  template <std::size_t Rows, std::size_t Width>
  static void layer_norm_backward(double const* x, double const* gamma, double const* mean, double const* rstd,
                                  double const* dy, double const* base, double* dx, double* dgamma, double* dbeta,
                                  double* = nullptr) {
    calls += "norm_backward" + terms(base);
    host_backend::layer_norm_backward<Rows, Width>(x, gamma, mean, rstd, dy, base, dx, dgamma, dbeta);
  }
  static void dropout(double const* x, double const* base, double* y, index_map const& map, random_key const& key,
                      double p) {
    calls += "dropout" + terms(base);
    host_backend::dropout(x, base, y, map, key, p);
  }
};

/// The calls of the first rank, forward and backward.
template <class Module, class Mesh = mesh<>, class Rules = megatron_rules>
std::vector<std::string> passes() {
  using input = activations<embed_dim>;
  using plan = module_plan<Mesh, Rules, double, padding<pad<vocab>>, tokens, telling_backend>;
  using here = placed<Module, plan, input>;
  std::vector<std::string> found(2);
  comm::run_threads(Mesh::size, [&](comm::thread_communicator& world) {
    mesh_communicator<Mesh, comm::thread_communicator> ranks(world);
    step_context<double, telling_backend, comm::thread_communicator> context(ranks, 1);
    context.begin_step(mask_seed, mask_step, true);
    std::vector<double> x(local_size(Mesh::value, plan::stored(input::value), here::input_layout), 0.5);
    auto y = x, dy = x, dx = x;
    std::vector<double> saved(here::saved), scratch(here::forward_scratch + here::backward_scratch), zeros(4096, 0.25),
        sums(4096);
    std::vector<double const*> parameter(here::uses.size(), zeros.data());
    std::vector<double*> gradient(here::uses.size());
    for (std::size_t k = 0; k < gradient.size(); ++k)
      if (here::uses[k].trainable) gradient[k] = sums.data();
    frame<double> const f{parameter.data(), gradient.data(), saved.data(), scratch.data()};
    calls.clear();
    here::forward(context, f, x.data(), y.data());
    if (world.rank() == 0) found[0] = calls;
    calls.clear();
    here::backward(context, f, x.data(), y.data(), dy.data(), dx.data());
    if (world.rank() == 0) found[1] = calls;
  });
  return found;
}

/// Ops of a user's that fuse, and have no parameters: y = 2x, and y = x + 1.
struct doubled : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool adds_forward = true;
    template <class Context>
    static void forward(Context&, frame<double> const&, double const* x, double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = 2 * x[i];
    }
    template <class Context>
    static void forward_onto(Context&, frame<double> const&, double const* base, double const* x, double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = base[i] + 2 * x[i];
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const*, double const* dy, double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = 2 * dy[i];
    }
  };
};
struct shifted : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool in_place = true;
    static constexpr bool identity_cotangent = true;
    static constexpr bool adds_constant = true;
    template <class Context>
    static void forward(Context& c, frame<double> const& f, double const* x, double* y) {
      constant_onto(c, f, x, y);
    }
    template <class Context>
    static void constant_onto(Context&, frame<double> const&, double const* base, double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = (base != nullptr ? base[i] : 0) + 1;
    }
    template <class Context>
    static void backward(Context&, frame<double> const&, double const*, double const*, double const* dy, double* dx) {
      if (dx != dy)
        for (std::size_t i = 0; i < Place::input_size; ++i) dx[i] = dy[i];
    }
  };
};

using norm = layer_norm<embed_dim>;
using up = linear<embed_dim, mlp_dim>;
using down = linear<mlp_dim, embed_dim>;
template <class... End>
using branch = residual<sequential<norm, named<"fc", up>, gelu, named<"proj", down>, End...>>;
using plain =
    sequential<product<dims<embed_dim>, dims<mlp_dim>, normal(1)>, product<dims<mlp_dim>, dims<embed_dim>, normal(1)>>;
using no_drop = dropout<probability{0}>;
using drop = dropout<probability{0.25}>;
using split = mesh<axis<tp, 2>>;

}  // namespace

TEST_CASE("a bias takes the place of a product's zeros; an identity does nothing") {
  auto const found = passes<sequential<up, no_drop, gelu, no_drop, down>>();
  CHECK(found[0] == "biased_sum(0) product_accumulate activation biased_sum(0) product_accumulate ");
  CHECK(found[1] == "bias_gradient weight_gradient product activation_backward bias_gradient weight_gradient product ");
}
TEST_CASE("a residual sum is the product's, and backward the norm's") {
  auto const found = passes<branch<no_drop>>();
  CHECK(found[0] == "norm biased_sum(0) product_accumulate activation biased_sum(1) product_accumulate ");
  CHECK(found[1] ==
        "bias_gradient weight_gradient product activation_backward bias_gradient weight_gradient product "
        "norm_backward(1) ");
}
TEST_CASE("without biases the product adds to a copy") {
  auto const found = passes<residual<plain>>();
  CHECK(found[0] == "product copy product_accumulate ");
  CHECK(found[1] == "weight_gradient product weight_gradient copy product_accumulate ");
}
TEST_CASE("a residual sum is the dropout's") {
  auto const found = passes<branch<drop>>();
  CHECK(found[0] == "norm biased_sum(0) product_accumulate activation biased_sum(0) product_accumulate dropout(1) ");
  CHECK(found[1] ==
        "dropout(0) bias_gradient weight_gradient product activation_backward bias_gradient weight_gradient product "
        "norm_backward(1) ");
}
TEST_CASE("what is frozen has no gradient to compute, and passes the cotangent on") {
  auto const all = passes<frozen<branch<no_drop>>>();
  CHECK(all[0] == passes<branch<no_drop>>()[0]);
  CHECK(all[1] == "product activation_backward product norm_backward(1) ");
  auto const weights = passes<sequential<frozen<product<dims<embed_dim>, dims<mlp_dim>, normal(1)>>,
                                         bias<dims<mlp_dim>>, gelu, frozen<down>>>();
  CHECK(weights[0] == "biased_sum(0) product_accumulate activation biased_sum(0) product_accumulate ");
  CHECK(weights[1] == "product activation_backward bias_gradient product ");
}
TEST_CASE("row-parallel: the bias waits for the ranks' sum, and takes the residual with it") {
  auto const found = passes<branch<no_drop>, split>();
  CHECK(found[0] == "norm biased_sum(0) product_accumulate activation product biased_sum(2) ");
  CHECK(found[1] ==
        "bias_gradient weight_gradient product activation_backward bias_gradient weight_gradient product "
        "norm_backward(1) ");
}
TEST_CASE("ops of a user's fuse by the same members; without parameters there is no unit to ask for") {
  using pair = sequential<doubled, shifted>;
  using on_one = module_plan<mesh<>, megatron_rules, double, padding<>, tokens, host_backend>;
  using here = placed<pair, on_one, activations<embed_dim>>;
  static_assert(here::count == 1 && here::units.size() == 0);
  check_module<pair, activations<embed_dim>>();
  check_module<residual<pair>, activations<embed_dim>>();
}
TEST_CASE("what an all-reduce completes, it completes where it stands") {
  using plan = module_plan<split, megatron_rules, double, padding<>, tokens, host_backend>;
  using row = placed<product<dims<mlp_dim>, dims<embed_dim>, normal(1)>, plan, activations<mlp_dim>>;
  using column = placed<product<dims<embed_dim>, dims<mlp_dim>, normal(1)>, plan, activations<embed_dim>>;
  static_assert(row::out_path.count == 1 && column::in_dual.count == 1);
  CHECK(row::forward_scratch == 0);
  CHECK(column::backward_scratch == 0);
}
TEST_CASE("where both ends of a branch are sums over ranks, adding to them is a pass") {
  auto const found = passes<residual<plain>, split>();
  CHECK(found[0] == "product product add ");
  CHECK(found[1] == "weight_gradient product weight_gradient product add_to ");
}

}  // namespace fused_test
