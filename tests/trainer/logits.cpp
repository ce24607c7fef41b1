// SPDX-License-Identifier: Apache-2.0
// Logits are the same on every rank and under every plan, also where the last pipeline stage alone computes them.
#include <cmath>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace logits_test {
namespace {
using model = gpt2<gpt2_config{.vocabulary = 13, .context = 4, .layers = 3, .heads = 2, .width = 8, .dropout = 0.5}>;
struct one_rank : plan<micro_batch<2>, accumulate<2>, precision<fp64>> {};
struct pp3_tp2 : plan<mesh<axis<pp, 3>, axis<tp, 2>>, micro_batch<2>, accumulate<2>, precision<fp64>> {};
struct dp2 : plan<mesh<axis<dp, 2>>, accumulate<2>, precision<fp64>> {};
template <std::size_t Stage>
struct dp2_zero : plan<mesh<axis<dp, 2>>, accumulate<2>, precision<fp64>, zero<Stage>> {};
/// The head's output is not split by batch, tokens are.
struct vocabulary_over_dp
    : plan<mesh<axis<dp, 2>>, rules<shard<vocab, dp>, shard<batch, dp>>, accumulate<2>, precision<fp64>> {};

/// The logits of each data rank's first micro-batch, after a step, and the loss of an evaluation after that.
template <class Plan>
std::vector<std::vector<double>> logits_under(double* evaluated = nullptr) {
  std::vector<std::vector<double>> of_rank(Plan::data_ways);
  std::mutex one_at_a_time;
  run<Plan>(threads, [&](auto& rank) {
    using trainer_type = trainer<model, Plan>;
    trainer_type trainer(rank, {.learning_rate = 1e-2});
    step_on(trainer, 0, [](std::size_t, std::size_t g, std::size_t t) {
      return example{static_cast<std::int32_t>((3 * g + t) % 13), static_cast<std::int32_t>((g + 5 * t) % 13)};
    });
    std::vector<std::int32_t> tokens(trainer_type::local_tokens);
    for (std::size_t i = 0; i < trainer_type::local_sequences; ++i)
      for (std::size_t t = 0; t < 4; ++t)
        tokens[i * 4 + t] = static_cast<std::int32_t>((7 * trainer.global_sequence(i) + t * t) % 13);
    auto const mine = trainer.logits(tokens);
    loss_sum const loss = trainer.evaluate(tokens, tokens);
    std::lock_guard const lock(one_at_a_time);
    auto& all = of_rank[trainer.data_rank()];
    if (all.empty()) all = mine;
    CHECK(mine == all);
    if (evaluated != nullptr) *evaluated = loss.mean();
  });
  return of_rank;
}
void check_near(std::vector<double> const& found, double const* expected) {
  // Sums of a few dozen terms of order 1, in other orders, through three layers.
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(std::fabs(found[i] - expected[i]) <= 1e-12);
}
}  // namespace

TEST_CASE("logits under a pipeline and tensor parallelism are those of one rank") {
  auto const whole = logits_under<one_rank>();
  REQUIRE(whole[0].size() == 2 * 4 * 13);
  auto const parallel = logits_under<pp3_tp2>();
  REQUIRE(parallel[0].size() == whole[0].size());
  check_near(parallel[0], whole[0].data());
  CHECK(std::fabs(whole[0][0] - whole[0][1]) > 1e-6);
}
TEST_CASE("logits of a data rank are those of its own first sequences") {
  auto const whole = logits_under<one_rank>();
  for (auto const& parallel : {logits_under<dp2>(), logits_under<vocabulary_over_dp>()})
    // One sequence each: 0 and 1 of the global batch.
    for (std::size_t d = 0; d < 2; ++d) {
      REQUIRE(parallel[d].size() == 4 * 13);
      check_near(parallel[d], whole[0].data() + d * 4 * 13);
    }
}
TEST_CASE("logits and evaluations under zero are those of one rank, with parameters that a step has updated") {
  double expected = 0;
  auto const whole = logits_under<one_rank>(&expected);
  auto const check = [&](auto plan_type) {
    double found = 0;
    auto const parts = logits_under<decltype(plan_type)>(&found);
    CHECK(std::fabs(found - expected) <= 1e-12 * expected);
    for (std::size_t d = 0; d < 2; ++d) check_near(parts[d], whole[0].data() + d * 4 * 13);
  };
  check(dp2_zero<1>{});
  check(dp2_zero<2>{});
  check(dp2_zero<3>{});
}
TEST_CASE("a model that says another vocabulary than its head has is told so") {
  using words = dim<vocab, 5>;
  using confused = model_of<2, named<"in", embedding<words, dim<embed, 4>>>,
                            named<"out", product<dims<dim<embed, 4>>, dims<words>, zeros>>, cross_entropy<words>>;
  static_assert(confused::vocabulary == 64);
  struct one : plan<> {};
  std::string text;
  try {
    run<one>(threads, [](auto& rank) {
      trainer<confused, one> trainer(rank);
      std::vector<std::int32_t> const tokens = {0, 1};
      static_cast<void>(trainer.logits(tokens));
    });
  } catch (error const& e) {
    text = e.what();
  }
  CHECK(text.find("64") != std::string::npos);
  CHECK(text.find("rows of 5") != std::string::npos);
}

}  // namespace logits_test
