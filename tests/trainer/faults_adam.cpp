// SPDX-License-Identifier: Apache-2.0
// known-faults AD-1, AD-2, AD-3: Adam's bias correction, its epsilon and its step counter, as the trainer calls it.
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_adam {
namespace {
template <factor Gradient>
using constant_gradient = model_of<1, scalar<>, weighted_loss<Gradient>>;
template <class Mesh = mesh<>>
struct adam : plan<Mesh, sequence_parallel<false>, precision<fp64>> {};
auto const nothing = [](auto&, coordinates const&) {};
constexpr adamw::options plain{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0};
}  // namespace

TEST_CASE("AD-1: epsilon is added after the bias correction, outside the root") {
  auto const result = train<constant_gradient<factor{1e-8}>, adam<>>({.learning_rate = 1, .optimizer = plain}, 1,
                                                                     [](std::size_t, std::size_t, std::size_t) {
                                                                       return example{0, 1};
                                                                     });
  // g/(|g| + ε) = 1/2. Before the correction: 0.030653; inside the root: 1e-4.
  CHECK(result.parameter.at("w.weight").value[0] == doctest::Approx(-0.5).epsilon(1e-12));
}

TEST_CASE("AD-2: one step counter for all parameters, the documented rule, alike under every plan") {
  // Row 0 is used in steps 1, 2 and 3, row 1 in step 3 alone, with a gradient of 1 each time. With the shared counter
  // row 1 moves by (0.1/0.271) / sqrt(0.001/(1 - 0.999³)) = 0.638814.
  using rows = model_of<2, named<"e", embedding<dim<vocab, 2>, unit_dim, zeros>>, weighted_loss<factor{2}>>;
  auto const data = [](std::size_t s, std::size_t, std::size_t t) {
    return example{s == 2 ? static_cast<std::int32_t>(t) : 0, s == 2 ? 1 : static_cast<std::int32_t>(t)};
  };
  auto const check = [](trained const& result) {
    auto const& e = result.parameter.at("e.weight").value;
    CHECK(e[0] == doctest::Approx(-3.0).epsilon(1e-7));
    CHECK(e[1] == doctest::Approx(-0.638814).epsilon(1e-6));
  };
  typename trainer<rows, adam<>>::options const options = {.learning_rate = 1, .optimizer = plain};
  check(train<rows, adam<>>(options, 3, data));
  check(train<rows, adam<mesh<axis<tp, 2>>>>(options, 3, data));
}

TEST_CASE("AD-3: the correction is on, and the counter advances once a step") {
  double before = 0;
  auto const result = train<constant_gradient<factor{1}>, adam<>>(
      {.learning_rate = 1, .optimizer = plain}, 5,
      [](std::size_t, std::size_t, std::size_t) {
        return example{0, 1};
      },
      nothing,
      [&](auto& trainer, coordinates const&) {
        double const now = trainer.parameter(0).value[0];
        // Uncorrected: 3.162, 4.250, 4.950, 5.442, 5.797.
        CHECK(before - now == doctest::Approx(1.0).epsilon(1e-6));
        before = now;
        if (now < -4.5) CHECK(trainer.steps() == 5);
      });
  CHECK(result.step.size() == 5);
}

}  // namespace faults_adam
