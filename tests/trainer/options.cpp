// SPDX-License-Identifier: Apache-2.0
// What a caller may get wrong at run time is told to every rank before anything changes.
#include <cmath>
#include <heddle/models/gpt2.hpp>
#include <heddle/optim/adamw.hpp>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace options_test {
namespace {

using model = model_of<1, scalar<>, weighted_loss<>>;
struct plan_type : plan<mesh<axis<dp, 2>>, precision<fp64>> {};
using trainer_type = basic_trainer<model, plan_type, host_backend>;
double const no_number = std::numeric_limits<double>::quiet_NaN();

/// What a call throws.
template <class Call>
std::string text_of_call(Call&& call) {
  try {
    call();
  } catch (error const& e) {
    return e.what();
  }
  return "no error";
}
template <class Function>
std::string text_of(Function&& function) {
  return text_of_call([&] { run<plan_type>(threads, function); });
}
void names(std::string const& text, std::string const& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}
std::mutex one_at_a_time;  // doctest's assertions

thread_local bool worn_out = false;
void fail_while_worn_out() {
  if (worn_out) throw error("the module is worn out");
}
using fragile = identity<fail_while_worn_out>;

/// Gradient descent with an option that it does not use.
struct bounded : sgd {
  struct options {
    double bound = 0;
  };
  static constexpr std::array<option_value, 1> values(options const& o) { return {{{"bound", o.bound}}}; }
  template <class Backend, class T>
  static void update(options const&, update_facts const& facts, T* w, T const* g, std::array<T*, 0> const& state,
                     std::size_t n) {
    sgd::update<Backend>(sgd::options{}, facts, w, g, state, n);
  }
};

std::string refused(trainer_type::options const& options) {
  return text_of([&](auto& rank) { trainer_type trainer(rank, options); });
}

}  // namespace

TEST_CASE("options that mean nothing are refused, by name and value") {
  CHECK(refused({.learning_rate = 0, .clip = 1e-300}) == "no error");
  for (double const bad : {no_number, -1.0, HUGE_VAL}) names(refused({.learning_rate = bad}), "'learning_rate' is ");
  for (double const bad : {no_number, -1.0}) names(refused({.clip = bad}), "'clip' is ");
  names(refused({.capture = true}), "and the host has none; leave it off");
  names(refused({.optimizer = {.beta1 = 1}}), "'beta1' is 1.0");
  names(refused({.optimizer = {.beta2 = 1}}), "'beta2' is 1.0");
  names(refused({.optimizer = {.epsilon = 0}}), "'epsilon' is 0.0");
  names(refused({.optimizer = {.weight_decay = no_number}}), "'weight_decay' is nan");
}

TEST_CASE("options that differ between ranks are refused: replicas would differ from then on") {
  names(text_of([](auto& rank) { trainer_type trainer(rank, {.seed = rank.rank() + 1}); }), "'seed' differs");
  // Neither seed has a neighbour among the doubles.
  std::uint64_t const large = std::uint64_t{1} << 60;
  names(text_of([&](auto& rank) { trainer_type trainer(rank, {.seed = large + rank.rank()}); }), "'seed' differs");
  names(text_of([](auto& rank) { trainer_type trainer(rank, {.learning_rate = rank.rank() == 0 ? 1e-3 : 2e-3}); }),
        "'learning_rate' differs");
  names(text_of([](auto& rank) { trainer_type trainer(rank, {.clip = rank.rank() == 0 ? 0 : 1.0}); }),
        "'clip' differs");
  names(text_of([](auto& rank) { trainer_type trainer(rank, {.optimizer = {.beta1 = rank.rank() == 0 ? 0.9 : 0.8}}); }),
        "'beta1' differs");
  // One unit in the last place.
  names(text_of([](auto& rank) {
          trainer_type trainer(rank, {.optimizer = {.beta2 = std::nextafter(0.999, rank.rank() == 0 ? 0 : 0.999)}});
        }),
        "'beta2' differs");
  names(text_of(
            [](auto& rank) { trainer_type trainer(rank, {.optimizer = {.epsilon = rank.rank() == 0 ? 1e-8 : 1e-9}}); }),
        "'epsilon' differs between ranks, and is 1e-0");
  names(text_of([](auto& rank) {
          trainer_type trainer(rank, {.optimizer = {.weight_decay = static_cast<double>(rank.rank())}});
        }),
        "'weight_decay' differs");
}

TEST_CASE("an optimizer's options are compared as it tells them: a NaN equals itself, and 0 is -0") {
  struct one : plan<mesh<axis<dp, 2>>, precision<fp64>, optimizer<bounded>> {};
  auto const text = [](double first, double second) {
    return text_of_call([&] {
      run<one>(threads, [&](auto& rank) {
        basic_trainer<model, one, host_backend> trainer(rank,
                                                        {.optimizer = {.bound = rank.rank() == 0 ? first : second}});
      });
    });
  };
  CHECK(text(0, -0.0) == "no error");
  CHECK(text(no_number, no_number) == "no error");
  names(text(0, no_number), "'bound' differs");
  names(text(2.5, -2.5), "'bound' differs");
}

TEST_CASE("a call without targets, or with a rate that is no number, changes nothing") {
  run<plan_type>(threads, [](auto& rank) {
    trainer_type trainer(rank, {.learning_rate = 1});
    std::vector<std::int32_t> const token = {0}, target = {1}, none;
    std::string const stepped = text_of_call([&] { trainer.step(token, none); });
    std::string const evaluated = text_of_call([&] { trainer.evaluate(token, none); });
    std::string const at_no_rate = text_of_call([&] { trainer.step(token, target, no_number); });
    auto const steps = trainer.steps();
    double const w = trainer.parameter(0).value[0];
    trainer.step(token, target);
    std::lock_guard const lock(one_at_a_time);
    names(stepped, "was given 1 and 0");
    names(evaluated, "was given 1 and 0");
    names(at_no_rate, "'learning_rate' is nan");
    CHECK(steps == 0);
    CHECK(w == 0);
    CHECK(trainer.steps() == 1);
  });
}

TEST_CASE("a step's rate that differs between ranks is an error on all of them, and changes nothing") {
  run<plan_type>(threads, [](auto& rank) {
    trainer_type trainer(rank, {.learning_rate = 1});
    std::vector<std::int32_t> const token = {0}, target = {1};
    double const rate = std::nextafter(1.0, rank.rank() == 0 ? 1.0 : 2.0);
    std::string const told = text_of_call([&] { trainer.step(token, target, rate); });
    auto const steps = trainer.steps();
    double const w = trainer.parameter(0).value[0];
    trainer.step(token, target, rank.rank() == 0 ? 0.0 : -0.0);
    std::lock_guard const lock(one_at_a_time);
    names(told, "were given different learning rates");
    CHECK(steps == 0);
    CHECK(w == 0);
    CHECK(trainer.steps() == 1);
  });
}

TEST_CASE("ids that differ between ranks which share sequences are an error on all ranks, and change nothing") {
  // Sequences are dealt out along dp; along tp and pp ranks share them.
  struct shared : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, precision<fp64>> {};
  using small = gpt2<gpt2_config{.vocabulary = 4, .context = 2, .layers = 2, .heads = 2, .width = 4}>;
  run<shared>(threads, [](auto& rank) {
    basic_trainer<small, shared, host_backend> trainer(rank);
    auto const number = static_cast<std::int32_t>(trainer.data_rank());
    std::vector<std::int32_t> const right = {number, 3};
    for (std::size_t wrong = 0; wrong < 8; ++wrong) {
      auto other = right;
      if (rank.rank() == wrong) other[1] = 2;
      std::string const told[] = {
          text_of_call([&] { trainer.step(other, right); }), text_of_call([&] { trainer.step(right, other); }),
          text_of_call([&] { trainer.evaluate(other, right); }), text_of_call([&] { trainer.evaluate(right, other); }),
          text_of_call([&] { trainer.logits(other); })};
      std::lock_guard const lock(one_at_a_time);
      for (auto const& text : told) names(text, "ranks that share sequences");
    }
    auto const steps = trainer.steps();
    trainer.step(right, right);
    std::lock_guard const lock(one_at_a_time);
    CHECK(steps == 0);
    CHECK(trainer.steps() == 1);
  });
}

TEST_CASE("the summands of an agreement cancel exactly, on meshes of any size") {
  mesh_value const mesh = {2, {{{id_v<dp>, "dp", 3}, {id_v<tp>, "tp", 1U << 14}}}};
  layout tokens;
  tokens.split(0, id_v<batch>);
  std::vector<std::int32_t> const ids[] = {{1, 2}, {3, 4}, {5, 6}};
  auto const sum = [&](std::size_t odd_rank, double odd_rate, std::int32_t odd_id, double odd_scale = 8) {
    double total = 0;
    for (std::size_t rank = 0; rank < mesh.size(); ++rank) {
      auto const at = mesh.coordinates_of(rank);
      auto mine = ids[at[0]];
      if (rank == odd_rank) mine[0] = odd_id;
      total += detail::agreement_summand(
          mesh, tokens, at, {rank == odd_rank ? odd_rate : 0.5, rank == odd_rank ? odd_scale : 8}, mine, ids[0]);
    }
    return total;
  };
  CHECK(sum(0, 0.5, 1) == 0);
  for (std::size_t const odd_rank : {std::size_t{0}, std::size_t{1}, (3UL << 14) - 1}) {
    CHECK(sum(odd_rank, 0.25, ids[odd_rank >> 14][0]) != 0);
    CHECK(sum(odd_rank, 0.5, 7) != 0);
    CHECK(sum(odd_rank, 0.5, ids[odd_rank >> 14][0], 4) != 0);
  }
}

TEST_CASE("a batch of another plan is refused, whatever its size") {
  using two_sequences = basic_trainer<model_of<2, scalar<>, weighted_loss<>>, plan_type, host_backend>;
  run<plan_type>(threads, [](auto& rank) {
    two_sequences trainer(rank);
    // One micro-batch, row and token too many or too few; and as many tokens, but of other sequences.
    struct {
      batch_shape shape;
      std::size_t context;
      char const* has;
    } const others[] = {{{2, 2, 1}, 2, "and has 2 micro-batches × 1 sequences × 2 tokens for each of 2"},
                        {{2, 1, 2}, 2, "and has 1 micro-batches × 2 sequences × 2 tokens"},
                        {{2, 1, 1}, 1, "and has 1 micro-batches × 1 sequences × 1 tokens"},
                        {{2, 1, 1}, 3, "and has 1 micro-batches × 1 sequences × 3 tokens"},
                        {{2, 2, 1}, 1, "and has 2 micro-batches × 1 sequences × 1 tokens"},
                        {{1, 1, 1}, 2, "and has 1 micro-batches × 1 sequences × 2 tokens for each of 1"}};
    for (auto const& other : others) {
      token_batch const batch(other.shape, other.context);
      std::string const stepped = text_of_call([&] { trainer.step(batch); });
      std::string const evaluated = text_of_call([&] { trainer.evaluate(batch); });
      std::lock_guard const lock(one_at_a_time);
      names(stepped, "a batch must have 1 micro-batches × 1 sequences × 2 tokens for each of 2");
      names(stepped, other.has);
      names(evaluated, other.has);
    }
    token_batch const right(trainer.shape(), trainer.context);
    std::string const stepped = text_of_call([&] { trainer.step(right); });
    std::lock_guard const lock(one_at_a_time);
    CHECK(stepped == "no error");
  });
}

TEST_CASE("a loss that is not finite is an error on every rank, parameters stay, and the next step goes on") {
  run<plan_type>(threads, [](auto& rank) {
    trainer_type trainer(rank, {.learning_rate = 1});
    std::vector<std::int32_t> const token = {0}, target = {1};
    double& w = trainer.parameter(0).value[0];
    if (rank.rank() == 1) w = no_number;
    std::string const told = text_of_call([&] { trainer.step(token, target); });
    auto const steps = trainer.steps();
    double const kept = w;
    w = 0;
    trainer.step(token, target);
    std::lock_guard const lock(one_at_a_time);
    names(told, "parameters are unchanged");
    CHECK(steps == 0);
    if (rank.rank() == 0) CHECK(kept == 0);
    CHECK(trainer.steps() == 1);
    CHECK(w == doctest::Approx(-1).epsilon(1e-7));  // the first step of Adam: −rate · g / (|g| + 1e-8)
  });
}

TEST_CASE("after an exception of a module, which leaves gradients on their way, a trainer refuses to go on") {
  using fragile_model = model_of<1, scalar<>, fragile, named<"s", scaled<unit_dim, zeros>>, weighted_loss<>>;
  run<plan_type>(threads, [](auto& rank) {
    basic_trainer<fragile_model, plan_type, host_backend> trainer(rank, {.learning_rate = 1});
    std::vector<std::int32_t> const token = {0}, target = {1};
    worn_out = true;
    std::string const told = text_of_call([&] { trainer.step(token, target); });
    worn_out = false;
    std::string const stepped = text_of_call([&] { trainer.step(token, target); });
    std::string const evaluated = text_of_call([&] { trainer.evaluate(token, target); });
    std::string const taken = text_of_call([&] { trainer.take_values(); });
    basic_trainer<fragile_model, plan_type, host_backend> fresh(rank, {.learning_rate = 1});
    std::string const again = text_of_call([&] { fresh.step(token, target); });
    std::lock_guard const lock(one_at_a_time);
    names(told, "worn out");
    names(taken, "ended an earlier call midway");
    names(stepped, "ended an earlier call midway");
    names(evaluated, "make a new trainer");
    CHECK(again == "no error");
  });
}

TEST_CASE("ids that no row of the table stands for are an error, whatever the vocabulary") {
  run<plan_type>(threads, [](auto& rank) {
    trainer_type trainer(rank);  // a table of one row, in a model of 64 ids
    std::vector<std::int32_t> const beyond = {1}, target = {1};
    std::string const told[] = {text_of_call([&] { trainer.step(beyond, target); }),
                                text_of_call([&] { trainer.evaluate(beyond, target); })};
    std::lock_guard const lock(one_at_a_time);
    for (auto const& text : told) names(text, "token 1 at position 0");
    CHECK(trainer.steps() == 0);
  });
}

}  // namespace options_test
