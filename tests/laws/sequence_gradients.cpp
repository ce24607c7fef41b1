// SPDX-License-Identifier: Apache-2.0
// SP-1 of known-faults.md: y = gamma · x with loss Σy on two ranks that hold two positions each. The gradient of gamma
// must be 10 on both; 3 and 7 are the local sums, 5 their mean.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <heddle/comm/threads.hpp>
#include <heddle/layout/names.hpp>
#include <heddle/nn/op.hpp>
#include <heddle/plan/resolved.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/tensor/redistribute.hpp>

#include "../comm/watchdog.hpp"

using namespace heddle;

namespace {

using one = dim<embed, 1>;
using sequence_dim = dim<sequence, 4>;

/// A module of a user's own: a gain that all positions share.
struct gain : primitive {
  using parameters = parameter_list<parameter<"gamma", dims<one>, ones, false>>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_input = true;
    template <class Context>
    static void forward(Context&, frame<double> const& f, double const* x, double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = f.parameter[0][0] * x[i];
    }
    template <class Context>
    static void backward(Context&, frame<double> const& f, double const* x, double const*, double const* dy,
                         double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) {
        f.gradient[0][0] += dy[i] * x[i];
        dx[i] = f.parameter[0][0] * dy[i];
      }
    }
  };
};

struct no_backend {
  static void clear(double* x, std::size_t n) { std::fill_n(x, n, 0.0); }
};
/// All parameters are there.
struct no_context {
  using backend = no_backend;
  void before_forward(std::size_t, std::size_t) {}
  void before_backward(std::size_t, std::size_t) {}
  void after_backward(std::size_t, std::size_t) {}
};
using world = mesh<axis<tp, 2>>;
using by_sequence =
    module_plan<world, rules<shard<sequence, tp>>, double, padding<>, dims<dim<batch, 1>, sequence_dim>, no_backend>;
using layer = placed<gain, by_sequence, dims<dim<batch, 1>, sequence_dim, one>>;

constexpr parameter_use gamma_use = layer::uses[0];
static_assert(gamma_use.gradient.is_partial(0) && !gamma_use.compute.has_partial());
static_assert(layer::place::input_size == 2 && layer::in_path.empty() && layer::in_dual.empty());
constexpr redistribution reduction =
    find_redistribution(world::value, gamma_use.dims, gamma_use.gradient, gamma_use.compute);

}  // namespace

TEST_CASE("the gradient of a shared gain is the sum over the split sequence") {
  testing::watchdog guard;
  std::array<double, 2> local{}, reduced{};
  comm::run_threads(2, [&](comm::thread_communicator& communicator) {
    mesh_communicator<world, comm::thread_communicator> rank(communicator);
    no_context context;
    double const gamma = 1,
                 x[] = {1.0 + 2.0 * static_cast<double>(rank.rank()), 2.0 + 2.0 * static_cast<double>(rank.rank())};
    double const dy[] = {1, 1};
    double gradient = 0, dx[2], y[2];
    double const* parameter[] = {&gamma};
    double* gradients[] = {&gradient};
    frame<double> const f{parameter, gradients, nullptr, nullptr, 0, 0};
    layer::forward(context, f, x, y);
    layer::backward(context, f, x, y, dy, dx);
    local[rank.rank()] = gradient;
    redistribute(rank, reduction, &gradient, &gradient, static_cast<double*>(nullptr));
    reduced[rank.rank()] = gradient;
  });
  CHECK(local == std::array<double, 2>{3, 7});
  CHECK(reduced == std::array<double, 2>{10, 10});
}
