// SPDX-License-Identifier: Apache-2.0
// What a caller or a declaration chooses reaches the place where it acts. Runs of two plans, or of one model before and
// after, agree without it too: so each value is checked against one known from elsewhere.
#include <array>
#include <cmath>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace choices_test {
namespace {

struct serial : plan<micro_batch<2>, accumulate<4>, precision<fp64>> {};
template <std::size_t Stage>
struct everything
    : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, micro_batch<2>, accumulate<2>, precision<fp64>, zero<Stage>> {};
constexpr gpt2_config config(double dropout) {
  return {.vocabulary = 13, .context = 4, .layers = 2, .heads = 2, .width = 32, .dropout = dropout};
}
using dropping = gpt2<config(0.5)>;
using whole = gpt2<config(0)>;

example data(std::size_t s, std::size_t g, std::size_t t) {
  return {static_cast<std::int32_t>((7 * s + 5 * g + t * t) % 13),
          t == 1 ? ignored_target : static_cast<std::int32_t>((s + 3 * g + 2 * t) % 13)};
}
template <class Trainer>
loss_sum evaluate_on(Trainer& trainer, std::size_t s) {
  std::vector<std::int32_t> tokens, targets;
  for (std::size_t i = 0; i < Trainer::local_sequences; ++i)
    for (std::size_t t = 0; t < Trainer::context; ++t) {
      example const e = data(s, trainer.global_sequence(i), t);
      tokens.push_back(e.token);
      targets.push_back(e.target);
    }
  return trainer.evaluate(tokens, targets);
}
template <class Trainer>
std::vector<double> values_of(Trainer& trainer, std::string const& name) {
  for (std::size_t n = 0; n < trainer.parameter_count(); ++n)
    if (auto const p = trainer.parameter(n); p.entry->name.view() == name) return {p.value, p.value + p.entry->size};
  return {};
}
double deviation(std::vector<double> const& x) {
  double sum = 0;
  for (double e : x) sum += e * e;
  return std::sqrt(sum / static_cast<double>(x.size()));
}
std::mutex one_at_a_time;  // doctest's assertions

/// What a plan says without training: before the first step, and after three.
struct said {
  loss_sum before, after;
  std::vector<double> logits;  ///< of data rank 0
};
template <class Plan>
said check_evaluations(loss_sum const& expected) {
  said all;
  run<Plan>(threads, [&](auto& rank) {
    using trainer_type = trainer<dropping, Plan>;
    trainer_type looked_at(rank, {.learning_rate = 1e-2}), left_alone(rank, {.learning_rate = 1e-2});
    loss_sum const found = evaluate_on(looked_at, 0);
    std::vector<double> losses[2];
    for (std::size_t s = 0; s < 3; ++s) {
      losses[0].push_back(step_on(left_alone, s, data).loss.sum);
      losses[1].push_back(step_on(looked_at, s, data).loss.sum);
      evaluate_on(looked_at, s + 1);
      looked_at.logits(std::vector<std::int32_t>(trainer_type::local_tokens, 3));
    }
    loss_sum const after = evaluate_on(looked_at, 7);
    auto const logits = looked_at.logits(std::vector<std::int32_t>(trainer_type::local_tokens, 5));
    std::lock_guard const lock(one_at_a_time);
    if (looked_at.data_rank() == 0) all = {found, after, logits};
    CHECK(found.count == expected.count);
    CHECK(std::fabs(found.sum - expected.sum) <= 1e-12 * expected.sum);  // a few hundred sums in another order
    CHECK(losses[0] == losses[1]);
    for (std::size_t n = 0; n < looked_at.parameter_count(); ++n) {
      auto const a = looked_at.parameter(n), b = left_alone.parameter(n);
      CHECK(std::vector<double>(a.value, a.value + a.entry->size) ==
            std::vector<double>(b.value, b.value + b.entry->size));
    }
  });
  return all;
}

}  // namespace

TEST_CASE("an evaluation has no dropout, counts each token once under every plan, and disturbs no training") {
  // The step of a model without dropout, whose weights start alike, says what the evaluation must.
  loss_sum expected;
  run<serial>(threads, [&](auto& rank) {
    trainer<whole, serial> trainer(rank, {.learning_rate = 0});
    expected = step_on(trainer, 0, data).loss;
  });
  said const plain = check_evaluations<everything<0>>(expected);
  said const gathered = check_evaluations<everything<3>>(expected);
  // Trained alike, they say the same, with parameters that are gathered to say it.
  CHECK(std::fabs(plain.after.sum - plain.before.sum) > 1e-3 * plain.before.sum);
  CHECK(std::fabs(gathered.after.sum - plain.after.sum) <= 1e-10 * plain.after.sum);
  REQUIRE(gathered.logits.size() == plain.logits.size());
  for (std::size_t i = 0; i < plain.logits.size(); ++i) CHECK(std::fabs(gathered.logits[i] - plain.logits[i]) <= 1e-10);
}

TEST_CASE("a Llama has the dropout of its configuration, in training alone") {
  constexpr auto config = [](double dropout) {
    return llama_config{.vocabulary = 13,
                        .context = 4,
                        .layers = 2,
                        .heads = 2,
                        .kv_heads = 1,
                        .width = 8,
                        .mlp = 12,
                        .dropout = dropout};
  };
  using half = llama<config(0.5)>;
  using none = llama<config(0)>;
  run<serial>(threads, [](auto& rank) {
    trainer<half, serial> dropping(rank, {.learning_rate = 0});
    trainer<none, serial> whole(rank, {.learning_rate = 0});
    loss_sum const expected = step_on(whole, 0, data).loss;
    CHECK(evaluate_on(dropping, 0).sum == expected.sum);
    CHECK(std::fabs(step_on(dropping, 0, data).loss.sum - expected.sum) > 1e-6 * expected.sum);
  });
}

TEST_CASE("a step's own learning rate is used instead of the options'") {
  using model = model_of<1, scalar<>, weighted_loss<>>;
  struct one : plan<precision<fp64>, optimizer<sgd>> {};
  run<one>(threads, [](auto& rank) {
    basic_trainer<model, one, host_backend> trainer(rank, {.learning_rate = 1});
    std::vector<std::int32_t> const token = {0}, target = {2};
    trainer.step(token, target, 0.25);
    CHECK(trainer.parameter(0).value[0] == -0.5);
  });
}

TEST_CASE("weights start with the declared deviation, each parameter and each seed with numbers of its own") {
  // 32·128 normal numbers: their deviation is known to 1/√8192, 1.1 %; here to four of those.
  double const near = 4 / std::sqrt(8192.0);
  run<serial>(threads, [&](auto& rank) {
    using trainer_type = trainer<whole, serial>;
    trainer_type first(rank, {.seed = 1}), second(rank, {.seed = 2});
    auto const up = values_of(first, "h.mlp.fc.weight"), down = values_of(first, "h.mlp.proj.weight");
    REQUIRE(up.size() == 2 * 32 * 128);
    REQUIRE(down.size() == up.size());
    CHECK(std::fabs(deviation(up) / 0.02 - 1) <= near);
    CHECK(std::fabs(deviation(down) / (0.02 / 2) - 1) <= near);  // √(2 · 2 layers)
    // The same numbers would be proportional.
    CHECK(std::fabs(up[0] / down[0] - up[1] / down[1]) > 1e-6);
    CHECK(up != values_of(second, "h.mlp.fc.weight"));
  });
}

TEST_CASE("masks differ between seeds, steps, sites and layers, and are never those of the initial weights") {
  comm::run_threads(1, [](comm::thread_communicator& world) {
    mesh_communicator<mesh<>, comm::thread_communicator> rank(world);
    step_context<double, host_backend, comm::thread_communicator> context(rank, 1);
    std::vector<random_key> keys;
    for (std::uint64_t seed : {0U, 1U})
      for (std::uint64_t step : {0U, 1U}) {
        context.begin_step(seed, step, true);
        for (std::size_t site : {0U, 1U})
          for (std::size_t layer : {0U, 1U}) keys.push_back(context.key(site, layer));
      }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      CHECK(keys[i].step != 0);  // the initial weights'
      for (std::size_t j = 0; j < i; ++j) CHECK_FALSE(keys[i] == keys[j]);
    }
  });
}

TEST_CASE("norms add the epsilon that they are given") {
  using width = dim<embed, 2>;
  struct one : plan<precision<fp64>, optimizer<sgd>> {};
  auto const loss = [](auto model, double first, double second) {
    double sum = 0;
    run<one>(threads, [&](auto& rank) {
      basic_trainer<typename decltype(model)::type, one, host_backend> trainer(rank, {.learning_rate = 0});
      trainer.parameter(0).value[0] = first;
      trainer.parameter(0).value[1] = second;
      for (std::size_t n = 1; n < trainer.parameter_count(); ++n)
        if (trainer.parameter(n).entry->name.view() == "norm.weight") trainer.parameter(n).value[1] = 0;
      sum = step_on(trainer, 0, [](std::size_t, std::size_t, std::size_t) { return example{0, 1}; }).loss.sum;
    });
    return sum;
  };
  using in = named<"x", embedding<dim<ids, 1>, width>>;
  // 1 / √(1 + 3): the mean square of (1, 1), and the variance of (1, −1), are 1.
  using rms = model_of<1, in, named<"norm", rms_norm<width, epsilon{3}>>, weighted_loss<>>;
  using layer = model_of<1, in, named<"norm", layer_norm<width, false, epsilon{3}>>, weighted_loss<>>;
  CHECK(loss(std::type_identity<rms>{}, 1, 1) == doctest::Approx(0.5).epsilon(1e-15));
  CHECK(loss(std::type_identity<layer>{}, 1, -1) == doctest::Approx(0.5).epsilon(1e-15));
}

TEST_CASE("rotary turns by the base that it is given, at global positions") {
  using positions = dim<sequence, 4>;
  using one_head = dim<heads, 1>;
  using pairs = dim<head_dim, 4>;
  using turned = rotary<positions, one_head, 1, pairs, rotary_base{100}>;
  using two = mesh<axis<cp, 2>>;
  using tokens = dims<dim<batch, 1>, positions>;
  using modules = module_plan<two, rules<shard<sequence, cp>>, double, padding<>, tokens, host_backend>;
  using here = placed<turned, modules, dims<dim<batch, 1>, positions, one_head, typename turned::qkv_dim, pairs>>;
  comm::run_threads(2, [](comm::thread_communicator& world) {
    mesh_communicator<two, comm::thread_communicator> rank(world);
    step_context<double, host_backend, comm::thread_communicator> context(rank, 1);
    std::array<double, 2 * 3 * 4> x{};
    x[12 + 1] = 1;  // the query of the second position here: the first of its second pair
    std::array<double, here::forward_scratch + 1> scratch{};
    frame<double> f;
    f.scratch = scratch.data();
    here::forward(context, f, x.data(), x.data());
    double const angle = static_cast<double>(2 * world.rank() + 1) / 10;  // position · 100^(−2/4)
    std::lock_guard const lock(one_at_a_time);
    CHECK(x[12 + 1] == doctest::Approx(std::cos(angle)).epsilon(1e-14));
    CHECK(x[12 + 3] == doctest::Approx(std::sin(angle)).epsilon(1e-14));
  });
}

}  // namespace choices_test
