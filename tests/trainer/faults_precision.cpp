// SPDX-License-Identifier: Apache-2.0
// known-faults BF-1, BF-2, BF-3, LS-1, LS-2, LS-3: master weights, sums of many gradients, and a loss scale on which
// all ranks agree.
#include <chrono>
#include <cmath>
#include <cstring>
#include <heddle/comm/delaying.hpp>
#include <heddle/heddle.hpp>
#include <limits>
#include <mutex>
#include <string>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_precision {
namespace {

template <precision_policy Policy, class... More>
struct mixed : plan<precision<Policy>, More...> {};
template <std::size_t Ranks>
using data = mesh<axis<dp, Ranks>>;

/// L = w: the gradient is 1.
using slope = model_of<1, scalar<ones>, identity<midst>, weighted_loss<>>;
example of_one(std::size_t, std::size_t, std::size_t) { return {0, 1}; }

}  // namespace

TEST_CASE("BF-1: updates below half a step of bfloat16 are kept by the master weight") {
  double master = 0, value = 0;
  run<mixed<bf16_mixed, optimizer<sgd>>>(threads, [&](auto& rank) {
    trainer<slope, mixed<bf16_mixed, optimizer<sgd>>> t(rank, {.learning_rate = 1e-3});
    for (std::size_t s = 0; s < 100; ++s) step_on(t, s, of_one);
    master = *t.parameter(0).master;
    value = static_cast<double>(*t.parameter(0).value);
  });
  CHECK(std::fabs(master - 0.9) < 1e-5);
  CHECK(value == 0.8984375);  // without a master it stays 1.0; a policy without one is refused (tests/reject)
}

namespace {
template <std::size_t Stage, precision_policy Policy, class Optimizer, std::size_t Rows = 5>
void check_taken_values() {
  using plan_type = mixed<Policy, data<2>, zero<Stage>, optimizer<Optimizer>>;
  using table = model_of<1, named<"e", embedding<dim<vocab, Rows>, dim<embed, 2>, ones>>, weighted_loss<>>;
  run<plan_type>(threads, [&](auto& rank) {
    trainer<table, plan_type> t(rank, {.learning_rate = 0.1});
    set_parameter<data<2>>(t, rank.at(), "e.weight", [](std::uint64_t) { return 0.9; });
    set_parameter<data<2>>(t, rank.at(), "e.weight", [](std::uint64_t i) { return i == 9 ? 4.0 : 5.0; });
    // Where the value is whole and the master split: rows that ranks divide are where they stand, columns are packed.
    auto const& entry = *t.parameter(0).entry;
    if (Stage == 1 || Stage == 2) CHECK(!entry.to_state.empty());
    if (Stage == 1 || Stage == 2) CHECK(entry.updates_in_place(data<2>::value) == (Rows % 2 == 0));
    t.take_values();
    // A target of 0 gives a gradient of 0: without weight decay nothing moves.
    step_on(t, 0, [](std::size_t, std::size_t, std::size_t) { return example{0, 0}; });
    auto const p = t.parameter(0);
    for_each_run(map_of_parameter<data<2>>(t, 0, rank.at()),
                 [&](std::size_t begin, std::size_t count, std::uint64_t global) {
                   for (std::size_t i = 0; i < count; ++i)
                     CHECK(static_cast<double>(p.value[begin + i]) == (global + i == 9 ? 4.0 : 5.0));
                 });
  });
}
/// It takes its gradient in the type of its weights alone.
struct adamw_without_decay {
  static constexpr std::size_t slots = 2;
  struct options {};
  template <class Backend, class T>
  static void update(options const&, update_facts const& facts, T* w, T const* g, std::array<T*, slots> const& state,
                     std::size_t n) {
    adamw::update<Backend>(adamw::options{.weight_decay = 0}, facts, w, g, state, n);
  }
};
constexpr precision_policy wide_master = [] {
  precision_policy p = bf16_mixed;
  p.master = dtype::float64;
  return p;
}();
}  // namespace

TEST_CASE("BF-2: values that are written stay, whatever the masters were") {
  check_taken_values<0, bf16_mixed, sgd>();
  check_taken_values<1, bf16_mixed, sgd>();
  check_taken_values<1, bf16_mixed, sgd, 6>();
  check_taken_values<2, bf16_mixed, sgd>();
  check_taken_values<3, bf16_mixed, sgd>();
  check_taken_values<0, fp16_mixed, adamw_without_decay>();
  check_taken_values<3, fp16_mixed, adamw_without_decay>();
  check_taken_values<1, wide_master, adamw_without_decay>();
}

namespace {
/// L = 512 · w / 512 for each of 512 micro-batches: each gradient is 1.
using often = model_of<1, scalar<ones>, weighted_loss<factor{512}>>;
template <class... More>
double summed() {
  return train<often, mixed<bf16_mixed, accumulate<512>, optimizer<sgd>, More...>>({.learning_rate = 0}, 1, of_one)
      .step[0]
      .gradient_norm;
}
}  // namespace

TEST_CASE("BF-3: 512 gradients of 1 are 512, however they are reduced") {
  CHECK(summed<>() == 512);  // in bfloat16 256
  CHECK(summed<reduce_gradients<per_micro_batch>>() == 512);
  // 1024 micro-batches, 512 on each rank: half of the gradient each.
  CHECK(summed<data<2>>() == 512);
  CHECK(summed<data<2>, zero<2>>() == 512);
}

namespace {
struct outs : dim_name<"outs"> {};
/// 1024 · Σ target · x over rows of one element, each of which can be had by itself: its gradient is 1024 · target.
struct loss_of_rows : primitive {
  using is_loss = void;
  using parameters = parameter_list<>;
  template <class Input>
  using output = dims<>;
  template <class Place>
  struct kernel : kernel_traits {
    using T = typename Place::element;
    using A = accumulation_t<T>;
    static constexpr bool keeps_input = true;
    static constexpr std::size_t rows = Place::input_size;
    static constexpr std::size_t independent_rows = rows;
    template <class Context>
    static void forward(Context& c, frame<T> const&, T const* x, T* y) {
      *loss_value(y) = 0;
      for (std::size_t r = 0; r < rows; ++r) *loss_value(y) += weight(c, r) * static_cast<A>(x[r]);
    }
    template <class Context>
    static void backward(Context& c, frame<T> const&, T const*, T const*, T const* dy, T* dx) {
      for (std::size_t r = 0; r < rows; ++r) dx[r] = static_cast<T>(weight(c, r) * *loss_value(dy));
    }

   private:
    template <class Context>
    static A weight(Context& c, std::size_t r) {
      return A(1024) * static_cast<A>(c.targets()[r]);
    }
  };
};
/// Gradients of a head's weight and bias to which each of 1024 tokens adds 1, cut into chunks of logits.
template <class Head, class... More>
void check_chunked(double sum) {
  using head_model = model_of<1024, scalar<ones>, named<"h", Head>, loss_of_rows>;
  auto const r = train<head_model, mixed<bf16_mixed, optimizer<sgd>, More...>>({.learning_rate = 0}, 1, of_one);
  for (auto const& p : r.parameter) {
    INFO(p.first);
    bool const of_head = p.first.find("h.") == 0;
    if (of_head) REQUIRE(p.second.gradient.size() == 1);
    if (of_head) CHECK(p.second.gradient[0] == sum);
  }
}
}  // namespace

TEST_CASE("BF-3: gradients of a head are sums over tokens, however many chunks its logits come in") {
  using biased_head = linear<unit_dim, dim<outs, 1>, biased::yes, ones>;
  using bare_head = linear<unit_dim, dim<outs, 1>, biased::no, ones>;
  check_chunked<biased_head>(1024);                  // one chunk
  check_chunked<biased_head, logit_chunk<1>>(1024);  // in bfloat16 256
  check_chunked<bare_head, logit_chunk<1>>(1024);
  check_chunked<biased_head, logit_chunk<2 * 256>>(1024);                                          // in four chunks
  check_chunked<sequential<named<"b", bias<dims<unit_dim>>>, biased_head>, logit_chunk<1>>(1024);  // in bfloat16 256
  check_chunked<biased_head, logit_chunk<1>, accumulate<2>>(1024);
  // Half of the gradient on each rank.
  check_chunked<biased_head, logit_chunk<1>, data<2>, zero<2>>(1024);
  check_chunked<biased_head, logit_chunk<1>, data<2>, zero<3>>(1024);
}

TEST_CASE("BF-3: ranks' bfloat16 are added in float") {
  comm::run_threads(9, [](comm::thread_communicator& world) {
    host::bfloat16 x[3] = {host::bfloat16(world.rank() == 0 ? 256.0F : 1.0F), host::bfloat16(1.0F),
                           host::bfloat16(0.5F)};
    world.all_reduce(std::span<host::bfloat16>(x));
    CHECK(static_cast<float>(x[0]) == 264);  // one by one 256
    CHECK(static_cast<float>(x[1]) == 9);
    CHECK(static_cast<float>(x[2]) == 4.5F);
  });
}

namespace {
constexpr precision_policy scaled_from(double initial, std::size_t interval = 2000, std::size_t hysteresis = 1) {
  precision_policy p = fp16_mixed;
  p.scale.initial = initial;
  p.scale.interval = interval;
  p.scale.hysteresis = hysteresis;
  return p;
}
/// A table of rows of one element, of which ranks own parts under ZeRO; the gradient of a row is 2·target/count, times
/// the scale. Above 65504 it is infinite in fp16.
template <std::size_t Rows>
using rows_of_one = model_of<1, named<"e", embedding<dim<ids, Rows>, unit_dim, ones>>, weighted_loss<factor{2}>>;

/// All that a step may change, bit by bit.
template <class Trainer>
std::vector<std::byte> state_of(Trainer& t) {
  std::vector<std::byte> all;
  auto const put = [&](auto const* from, std::size_t n) {
    std::size_t const at = all.size();
    all.resize(at + n * sizeof *from);
    if (n != 0) std::memcpy(all.data() + at, static_cast<void const*>(from), n * sizeof *from);
  };
  for (std::size_t n = 0; n < t.parameter_count(); ++n) {
    auto const p = t.parameter(n);
    put(p.value, p.entry->size);
    put(p.master, p.entry->state_size);
    for (auto const* slot : t.optimizer_state(n)) put(slot, p.entry->state_size);
  }
  return all;
}

/// At step `bad` the batch's first example is `large`, of which a gradient overflows; those of `small(g)` are small.
/// `prepare` sets parameters.
template <class Plan, class Model, class Rank, class Small, class Prepare>
void skip_once(Rank& rank, example large, Small small, std::size_t bad, double scale, Prepare prepare) {
  trainer<Model, Plan> t(rank, {.learning_rate = 1e-2});
  prepare(t);
  for (std::size_t s = 0; s < 6; ++s) {
    auto const before = state_of(t);
    auto const result = step_on(
        t, s, [=](std::size_t step, std::size_t g, std::size_t) { return step == bad && g == 0 ? large : small(g); });
    CHECK(result.skipped == (s == bad));
    CHECK(result.loss_scale == (s > bad ? scale / 2 : scale));
    CHECK((state_of(t) == before) == result.skipped);
    CHECK(std::isfinite(result.gradient_norm) == !result.skipped);
    CHECK(t.loss_scale().scale == (s >= bad ? scale / 2 : scale));
    CHECK(t.loss_scale().skipped == (s >= bad ? 1 : 0));
  }
  CHECK(t.steps() == 6);
}
/// Of token `row` one gradient overflows.
template <class Plan, std::size_t Rows, class Model = rows_of_one<Rows>, class Rank>
void overflow_once(Rank& rank, std::size_t row, std::size_t bad, double scale) {
  skip_once<Plan, Model>(
      rank, {static_cast<std::int32_t>(row), 63},
      [](std::size_t g) {
        return example{static_cast<std::int32_t>(g % Rows), 1};
      },
      bad, scale, [](auto&) {});
}
}  // namespace

TEST_CASE("LS-1: what overflows on one rank is skipped by all, and changes no bit of the state") {
  // Gradients 2·63/2·1024 = 64512 fit at a scale of 1024, and not at 2048.
  auto const check = [](auto stage) {
    using plan_type = mixed<scaled_from(2048), data<2>, zero<decltype(stage)::value>>;
    run<plan_type>(threads, [](auto& rank) {
      for (std::size_t const row : {0U, 1U}) overflow_once<plan_type, 2>(rank, row, 3, 2048);
    });
  };
  check(std::integral_constant<std::size_t, 0>{});
  check(std::integral_constant<std::size_t, 1>{});
  check(std::integral_constant<std::size_t, 2>{});
  check(std::integral_constant<std::size_t, 3>{});
}

TEST_CASE("LS-2: the decision waits for a late reduction") {
  using plan_type = mixed<scaled_from(2048), data<2>, zero<1>>;
  comm::run_threads(2, [](comm::thread_communicator& world) {
    comm::delaying<comm::thread_communicator> late(
        world.split(0, world.rank(), "world"),
        {.seed = 5, .shortest = std::chrono::milliseconds(5), .longest = std::chrono::milliseconds(50)});
    mesh_communicator<data<2>, comm::delaying<comm::thread_communicator>> rank(late);
    overflow_once<plan_type, 2>(rank, 1, 2, 2048);
  });
}

TEST_CASE("LS-3: a rank that owns nothing decides with the others") {
  // Three sequences count: 2·63/3·2048 = 86016.
  using plan_type = mixed<scaled_from(2048), data<3>, zero<1>>;
  run<plan_type>(threads, [](auto& rank) { overflow_once<plan_type, 2>(rank, 0, 3, 2048); });
}

namespace {
/// Token 1 is 128 in front of the last weight, whose gradient is that many times the others', which are the scale
/// itself.
using large_at_the_end = model_of<1, named<"e", embedding<dim<ids, 2>, unit_dim, ones>>,
                                  named<"h", repeat<dim<layers, 2>, named<"b", bias<dims<unit_dim>>>>>,
                                  named<"s", scaled<unit_dim>>, weighted_loss<>>;
/// Rows of which a tensor rank has half.
using split_rows = model_of<1, named<"e", embedding<dim<vocab, 4>, unit_dim, ones>>, weighted_loss<factor{2}>>;
}  // namespace

TEST_CASE("LS-1: what overflows on the last pipeline stage alone is skipped by all") {
  using line = mesh<axis<pp, 2>>;
  using plan_type = mixed<scaled_from(2048), line, accumulate<2>, optimizer<sgd>>;
  run<plan_type>(threads, [](auto& rank) {
    skip_once<plan_type, large_at_the_end>(
        rank, {1, 1},
        [](std::size_t) {
          return example{0, 1};
        },
        3, 2048,
        [&](auto& t) {
          set_parameter<line>(t, rank.at(), "e.weight", [](std::uint64_t row) { return row == 1 ? 128 : 1; });
          t.take_values();
          // Of one of two tokens 128·2048/2 does not fit, and all else does.
          CHECK(t.parameter_count() == 2);
        });
  });
}

TEST_CASE("LS-1: what overflows on one tensor rank is skipped by all") {
  using plan_type = mixed<scaled_from(2048), mesh<axis<tp, 2>>, rules<shard<vocab, tp>>>;
  run<plan_type>(threads, [](auto& rank) {
    for (std::size_t const row : {0U, 3U}) overflow_once<plan_type, 4, split_rows>(rank, row, 3, 2048);
  });
}

TEST_CASE("a loss scale that is set is one of the policy's, and the same on all ranks") {
  using plan_type = mixed<scaled_from(2048), data<2>>;
  std::mutex one_at_a_time;
  run<plan_type>(threads, [&](auto& rank) {
    trainer<rows_of_one<2>, plan_type> t(rank, {.learning_rate = 1e-2});
    auto const step = [&] { return step_on(t, 0, of_one); };
    auto const text_of = [](auto call) -> std::string {
      try {
        call();
      } catch (error const& e) {
        return e.what();
      }
      return "no error";
    };
    std::string refused[5];
    double const bad[5] = {1000, 0.5, 33554432, -4, std::numeric_limits<double>::quiet_NaN()};
    for (std::size_t i = 0; i < 5; ++i) refused[i] = text_of([&] { t.set_loss_scale({.scale = bad[i]}); });
    auto const unchanged = t.loss_scale();
    t.set_loss_scale({.scale = rank.rank() == 0 ? 1024.0 : 512.0});
    auto const before = state_of(t);
    std::string const told = text_of(step);
    bool const kept = state_of(t) == before;
    t.set_loss_scale({.scale = 1024});
    auto const result = step();
    std::lock_guard const lock(one_at_a_time);
    for (auto const& text : refused) CHECK(text.find("must be a power of two from 1 to 16777216") != text.npos);
    CHECK(refused[0].find("is 1000,") != std::string::npos);
    CHECK(unchanged == loss_scale_state{.scale = 2048});
    CHECK(told.find("learning rates or loss scales") != std::string::npos);
    CHECK(told.find(rank.rank() == 0 ? "its loss scale 1024:" : "its loss scale 512:") != std::string::npos);
    CHECK(kept);
    CHECK(result.loss_scale == 1024);
    CHECK(!result.skipped);
  });
}

TEST_CASE(
    "the scale grows after finite steps in a row, waits for as many overflows as hysteresis says, and continues") {
  using plan_type = mixed<scaled_from(2048, 3, 2)>;
  run<plan_type>(threads, [](auto& rank) {
    using trainer_type = trainer<rows_of_one<2>, plan_type>;
    trainer_type t(rank, {.learning_rate = 1e-2});
    auto const step = [](trainer_type& on, bool overflows) {
      return step_on(on, 0, [=](std::size_t, std::size_t, std::size_t) { return example{0, overflows ? 63 : 1}; });
    };
    CHECK(step(t, true).skipped);  // 2·63·2048
    CHECK(t.loss_scale().scale == 2048);
    CHECK(step(t, true).skipped);
    CHECK(t.loss_scale().scale == 1024);
    CHECK(step(t, true).skipped);
    CHECK(t.loss_scale().scale == 512);
    // 2·63·512 = 64512 is finite: nothing is skipped any more, and the scale grows.
    CHECK(!step(t, true).skipped);
    auto const state = t.loss_scale();
    CHECK(state == loss_scale_state{.scale = 512, .finite_steps = 1, .overflows = 3, .skipped = 3});
    CHECK(!step(t, false).skipped);
    CHECK(!step(t, false).skipped);
    CHECK(t.loss_scale() == loss_scale_state{.scale = 1024, .finite_steps = 0, .overflows = 0, .skipped = 3});
    trainer_type other(rank, {.learning_rate = 1e-2});
    other.set_loss_scale(state);
    CHECK(!step(other, false).skipped);
    CHECK(!step(other, false).skipped);
    CHECK(other.loss_scale() == t.loss_scale());
  });
}

namespace {
constexpr precision_policy unscaled{.storage = dtype::float16};
/// The weight after one update by a gradient of 2, before which `skipped` steps overflow.
template <precision_policy Policy>
double updated_once(std::size_t skipped) {
  double w = 0;
  run<mixed<Policy>>(threads, [&](auto& rank) {
    trainer<rows_of_one<1>, mixed<Policy>> t(rank, {.learning_rate = 0.125});
    for (std::size_t s = 0; s <= skipped; ++s) {
      auto const result = step_on(t, s, of_one);
      CHECK(result.skipped == (s < skipped));
      CHECK((result.skipped || result.gradient_norm == 2));
    }
    w = *t.parameter(0).master;
  });
  return w;
}
}  // namespace

TEST_CASE("a skipped step is none for the optimizer, and a scale changes no bit of an update") {
  // 2·65536 and 2·32768 overflow, 2·16384 does not.
  CHECK(updated_once<fp16_mixed>(2) == updated_once<unscaled>(0));
  CHECK(updated_once<unscaled>(0) < 0.9);
}

TEST_CASE("what no scale cures is an error that says so") {
  using plan_type = mixed<scaled_from(1)>;
  run<plan_type>(threads, [](auto& rank) {
    using wide = model_of<1, scalar<ones>, weighted_loss<factor{4096}>>;
    trainer<wide, plan_type> t(rank, {.learning_rate = 1e-2});
    CHECK_THROWS_WITH_AS(step_on(t, 0,
                                 [](std::size_t, std::size_t, std::size_t) {
                                   return example{0, 63};
                                 }),
                         doctest::Contains("with a loss scale of 1; parameters are unchanged"), error);
    CHECK(t.loss_scale().scale == 1);
  });
}

}  // namespace faults_precision
