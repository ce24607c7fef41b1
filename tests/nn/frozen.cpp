// SPDX-License-Identifier: Apache-2.0
// Modules whose parameters are frozen: the same values and cotangents, no gradients, and less saved. In poisoned
// memory, so what backward still reads without having asked for it shows.
#include <heddle/nn/activation.hpp>
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/forward_only.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace frozen_test {
namespace {

using x_dims = activations<embed_dim>;
using up = linear<embed_dim, mlp_dim, biased::yes, normal(1)>;
using down = linear<mlp_dim, embed_dim, biased::no, normal(1)>;
using norm = layer_norm<embed_dim>;
using head = linear<embed_dim, vocab_dim, biased::yes, normal(1)>;
using loss = cross_entropy<vocab_dim>;

/// y = scale · x², written without knowing of frozen parameters: it adds to its gradient under any plan.
struct unaware : primitive {
  using parameters = parameter_list<parameter<"scale", dims<embed_dim>, ones, false>>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr bool keeps_input = true;
    static constexpr std::size_t width = Place::template extent<embed>;
    static constexpr std::size_t backward_scratch = Place::input_size;
    template <class Context>
    static void forward(Context&, frame<double> const& f, double const* x, double* y) {
      for (std::size_t i = 0; i < Place::input_size; ++i) y[i] = f.parameter[0][i % width] * x[i] * x[i];
    }
    template <class Context>
    static void backward(Context&, frame<double> const& f, double const* x, double const*, double const* dy,
                         double* dx) {
      for (std::size_t i = 0; i < Place::input_size; ++i) f.scratch[i] = 2 * x[i] * dy[i];
      for (std::size_t i = 0; i < Place::input_size; ++i) {
        f.gradient[0][i % width] += x[i] * x[i] * dy[i];
        dx[i] = f.parameter[0][i % width] * f.scratch[i];
      }
    }
  };
};

/// `Plain`, and the same with frozen parts, under meshes and rules; the logits in chunks of `LogitBytes`.
template <class Plain, class Frozen, class Input = x_dims, std::size_t LogitBytes = 0>
void check() {
  using tp2 = mesh<axis<tp, 2>>;
  using dp2_tp2 = mesh<axis<dp, 2>, axis<tp, 2>>;
  subject const& one = subject_of<Plain, Input, mesh<>, megatron_rules, testing::tokens, LogitBytes>();
  check_frozen(one, subject_of<Frozen, Input, mesh<>, megatron_rules, testing::tokens, LogitBytes>(), "one rank");
  check_frozen(one, subject_of<Frozen, Input, tp2, megatron_rules, testing::tokens, LogitBytes>(), "tp2");
  check_frozen(one, subject_of<Frozen, Input, dp2_tp2, megatron_sequence_rules, testing::tokens, LogitBytes>(),
               "dp2 tp2, sequence rule");
}

template <class Module, class Input, std::size_t LogitBytes = 0>
using on_one =
    placed<Module, module_plan<mesh<>, megatron_rules, double, padding<>, testing::tokens, host_backend, LogitBytes>,
           Input>;
template <class Module, class Input = x_dims>
constexpr std::size_t saved = on_one<Module, Input>::saved;

}  // namespace

TEST_CASE("a frozen product, with its bias and alone, reads nothing but its weight") {
  check<up, frozen<up>>();
  check<down, frozen<down>, activations<mlp_dim>>();
  static_assert(!on_one<frozen<up>, x_dims>::needs_input && on_one<up, x_dims>::needs_input);
}
TEST_CASE("a frozen weight whose bias is trained, and the other way round") {
  using weight = product<dims<embed_dim>, dims<mlp_dim>, normal(1)>;
  check<up, sequential<frozen<weight>, bias<dims<mlp_dim>>>>();
  check<up, sequential<weight, frozen<bias<dims<mlp_dim>>>>>();
}
TEST_CASE("frozen norms") {
  check<norm, frozen<norm>>();
  check<rms_norm<embed_dim>, frozen<rms_norm<embed_dim>>>();
}
TEST_CASE("a frozen table") {
  using table = embedding<vocab_dim, embed_dim, normal(1)>;
  check<sequential<table, up>, sequential<frozen<table>, up>, testing::tokens>();
}
TEST_CASE("a module that knows nothing of it is given scratch to write to") {
  check<unaware, frozen<unaware>>();
  static_assert(on_one<frozen<unaware>, x_dims>::backward_scratch > on_one<unaware, x_dims>::backward_scratch);
}
TEST_CASE("frozen parts of a branch that is repeated; frozen is frozen, once or twice") {
  using branch = residual<sequential<named<"norm", norm>, named<"up", up>, gelu, named<"down", down>>>;
  using partly = residual<sequential<named<"norm", frozen<norm>>, named<"up", up>, gelu, named<"down", frozen<down>>>>;
  using layer_count = dim<layers, 3>;
  check<repeat<layer_count, branch>, frozen<repeat<layer_count, branch>>>();
  check<repeat<layer_count, branch>, repeat<layer_count, partly>>();
  check<branch, frozen<frozen<branch>>>();
  static_assert(saved<frozen<branch>> < saved<partly> && saved<partly> < saved<branch>);
}
TEST_CASE("a frozen head gives rows that it does not keep") {
  constexpr std::size_t chunk = 300;
  using plain = sequential<norm, named<"head", head>, loss>;
  using tuned = sequential<norm, named<"head", frozen<head>>, loss>;
  check<plain, tuned, x_dims, chunk>();
  static_assert(on_one<plain, x_dims, chunk>::logit_rows != 0 &&
                on_one<tuned, x_dims, chunk>::logit_rows == on_one<plain, x_dims, chunk>::logit_rows);
  // As the end of a chain of its own it would have to keep a value that nobody reads: the logits stand whole.
  using chained = sequential<named<"head", frozen<sequential<norm, head>>>, loss>;
  check<plain, chained, x_dims, chunk>();
  static_assert(on_one<chained, x_dims, chunk>::logit_rows == 0);
}
TEST_CASE("what no backward reaches saves nothing") {
  using layer = residual<sequential<named<"norm", norm>, named<"up", up>, gelu, named<"down", down>>>;
  using before = detail::forward_only<frozen<repeat<dim<layers, 3>, layer>>>;
  static_assert(saved<before> == 0 && saved<frozen<repeat<dim<layers, 3>, layer>>> > 0);
  // Of a chain, what the first step with a backward reads.
  using chain = sequential<before, named<"head", head>>;
  static_assert(saved<chain> == on_one<head, x_dims>::saved + slot<double>(x_dims::value.size()));
}

}  // namespace frozen_test
