// SPDX-License-Identifier: Apache-2.0
// known-faults GA-1, GA-2, UN-1, CE-2: what a gradient is divided by.
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_normalisation {
namespace {

// w = 0 and loss (w − y)²/2 per token: the gradient of a token is −y.
template <std::size_t Context>
using square = model_of<Context, scalar<>, half_square_loss>;

template <std::size_t MicroBatches, std::size_t Rows, std::size_t Ranks = 1>
struct cut : plan<mesh<axis<dp, Ranks>>, accumulate<MicroBatches>, micro_batch<Rows>, precision<fp64>, optimizer<sgd>> {
};

template <std::size_t Context, class Plan>
double gradient_of(std::vector<std::int32_t> const& targets) {
  auto const result = train<square<Context>, Plan>({}, 1, [&](std::size_t, std::size_t g, std::size_t t) {
    return example{0, targets[g * Context + t]};
  });
  return result.parameter.at("w.weight").gradient[0];
}
constexpr std::int32_t none = ignored_target;

}  // namespace

TEST_CASE("GA-1: the mean over all tokens, however they are cut into micro-batches") {
  // One token y = 3, three tokens y = 0. Bits: sums and quotients of small integers and powers of two are exact.
  CHECK(gradient_of<1, cut<4, 1>>({3, 0, 0, 0}) == -0.75);
  CHECK(gradient_of<1, cut<2, 2>>({3, 0, 0, 0}) == -0.75);
  CHECK(gradient_of<1, cut<1, 4>>({3, 0, 0, 0}) == -0.75);
  CHECK(gradient_of<4, cut<1, 1>>({3, 0, 0, 0}) == -0.75);
  // As two micro-batches of 1 and 3 tokens (mean of means: -1.5), and over data ranks.
  CHECK(gradient_of<3, cut<2, 1>>({3, none, none, 0, 0, 0}) == -0.75);
  CHECK(gradient_of<3, cut<1, 2>>({3, none, none, 0, 0, 0}) == -0.75);
  CHECK(gradient_of<3, cut<1, 1, 2>>({3, none, none, 0, 0, 0}) == -0.75);
  CHECK(gradient_of<1, cut<1, 1, 4>>({3, 0, 0, 0}) == -0.75);
}

TEST_CASE("GA-2: the count of all ranks and micro-batches divides, and an empty micro-batch does no harm") {
  // Sequence of micro-batch m and data rank d: 2m + d. Rank 0 has 1 and 4 counted tokens, rank 1 has 2 and 0; their
  // gradients are 1, 2 and 4 each, up to the sign.
  std::vector<std::int32_t> const targets = {1, none, none, none, 4,    4,    none, none,  // micro-batch 0
                                             2, 2,    2,    2,    none, none, none, none};
  CHECK(gradient_of<4, cut<2, 1, 2>>(targets) == doctest::Approx(-17.0 / 7).epsilon(1e-15));  // 2.428571
}

TEST_CASE("UN-1: a short window, filled up with ignored targets, is divided by what it holds") {
  // Five micro-batches of gradient 1, a window of two. w stays near 0: the rate is 0.
  auto const result = train<square<1>, cut<2, 1>>(
      {.learning_rate = 0}, 3,
      [](std::size_t s, std::size_t g, std::size_t) {
        return example{0, s == 2 && g == 1 ? none : 1};
      },
      [](auto&, coordinates const&) {},
      [](auto& trainer, coordinates const&) { CHECK(trainer.parameter(0).gradient[0] == -1.0); });
  CHECK(result.step[2].loss.count == 1);
}

TEST_CASE("CE-2: a rank whose labels are all ignored") {
  CHECK(gradient_of<2, cut<1, 1, 2>>({3, 1, none, none}) == -2.0);
}

namespace {
using words = dim<vocab, 5>;
using classifier = model_of<2, named<"in", embedding<dim<ids, 3>, dim<embed, 4>, normal(1)>>,
                            named<"head", product<dims<dim<embed, 4>>, dims<words>, normal(1)>>, cross_entropy<words>>;
struct adam_plan : plan<mesh<axis<dp, 2>, axis<tp, 2>>, accumulate<2>, micro_batch<1>, precision<fp64>> {};
}  // namespace

TEST_CASE("CE-2: all labels ignored everywhere: loss 0, gradients of zero, and the step counts: decay applies") {
  std::vector<double> start;
  std::mutex one_at_a_time;
  auto const result = train<classifier, adam_plan>(
      {.learning_rate = 0.5, .optimizer = {.weight_decay = 0.125}}, 1,
      [](std::size_t, std::size_t, std::size_t) {
        return example{1, none};
      },
      [&](auto& trainer, coordinates const&) {
        std::lock_guard const lock(one_at_a_time);
        start.assign(trainer.parameter(0).value, trainer.parameter(0).value + 12);
      },
      [](auto& trainer, coordinates const&) { CHECK(trainer.steps() == 1); });
  CHECK(result.step[0].loss.sum == 0);
  CHECK(result.step[0].loss.mean() == 0);
  CHECK(result.step[0].gradient_norm == 0);
  for (auto const& [name, p] : result.parameter)
    for (double g : p.gradient) CHECK(g == 0);
  auto const& in = result.parameter.at("in.weight").value;
  REQUIRE(in.size() == 12);
  for (std::size_t i = 0; i < in.size(); ++i)
    CHECK(in[i] == doctest::Approx(start[i] * (1 - 0.5 * 0.125)).epsilon(1e-15));
}
TEST_CASE("CE-2: one data rank has no label that counts: losses and gradients are those of the other alone") {
  auto const data = [](std::size_t, std::size_t g, std::size_t t) {
    // Sequence g belongs to data rank g mod 2.
    return example{static_cast<std::int32_t>((g + t) % 3), g % 2 == 1 ? none : static_cast<std::int32_t>(g + t)};
  };
  struct one_rank : plan<accumulate<4>, precision<fp64>> {};
  auto const found = train<classifier, adam_plan>({}, 1, data);
  auto const expected = train<classifier, one_rank>({}, 1, data);
  CHECK(found.step[0].loss.count == 4);
  CHECK(found.step[0].loss.sum == doctest::Approx(expected.step[0].loss.sum).epsilon(1e-14));
  for (auto const& [name, p] : expected.parameter)
    for (std::size_t i = 0; i < p.gradient.size(); ++i)
      CHECK(std::fabs(p.gradient[i] - found.parameter.at(name).gradient[i]) <= 1e-15);
}

}  // namespace faults_normalisation
