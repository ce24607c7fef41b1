// SPDX-License-Identifier: Apache-2.0
// known-faults ZP-1, ZP-2, ZP-4, LS-3, GN-3, TE-2: parts that pad, parts that are empty, parameters that nothing uses,
// and such as are frozen; buckets of unlike lengths.
#include <algorithm>
#include <cmath>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_zero {
namespace {

template <std::size_t Ranks>
using data = mesh<axis<dp, Ranks>>;

/// The real indices of a dimension of `Size` on each of eight ranks.
template <std::size_t Size>
constexpr std::array<std::size_t, 8> real_parts() {
  constexpr dimension_list d = dims<dim<embed, Size>>::value;
  constexpr layout part = zero_rest<1, 1U>::of(data<8>::value, d, layout{}).state;
  std::array<std::size_t, 8> real{};
  for (std::size_t r = 0; r < 8; ++r)
    real[r] = local_block(data<8>::value, d.dim[0], part, data<8>::value.coordinates_of(r)).valid;
  return real;
}
// ZP-1: each of eight ranks stores 2; padding may fill several ranks.
static_assert(real_parts<10>() == std::array<std::size_t, 8>{2, 2, 2, 2, 2, 0, 0, 0});
static_assert(real_parts<11>() == std::array<std::size_t, 8>{2, 2, 2, 2, 2, 1, 0, 0});
static_assert(real_parts<16>() == std::array<std::size_t, 8>{2, 2, 2, 2, 2, 2, 2, 2});

// The dimension that divides is split, wherever it stands; without one, that which pads least.
constexpr name_id split_of(dimension_list const& d) {
  layout const l = zero_rest<3, 1U>::of(data<4>::value, d, layout{}).parameter;
  return l.is_split(0) ? l.axis[0].dim : 0;
}
static_assert(split_of(dims<dim<heads, 3>, dim<embed, 8>>::value) == id_v<embed>);
static_assert(split_of(dims<dim<heads, 4>, dim<embed, 8>>::value) == id_v<heads>);
static_assert(split_of(dims<dim<heads, 3>, dim<embed, 11>>::value) == id_v<embed>);
static_assert(split_of(dims<dim<heads, 1>, dim<embed, 1>>::value) == id_v<heads>);

// Where there is nothing to split, a stage costs nothing.
template <std::size_t Stage>
struct on_one : plan<data<1>, zero<Stage>> {};
using small = gpt2<gpt2_config{.vocabulary = 16, .context = 4, .layers = 1, .heads = 1, .width = 8}>;
static_assert(ledger<small, on_one<2>>::memory(0) == ledger<small, on_one<0>>::memory(0));
static_assert(ledger<small, on_one<3>>::memory(0) == ledger<small, on_one<0>>::memory(0));

// A table of five rows of two, looked up by tokens 0, 1 and 3, whose row 4 nothing ever uses.
using five_rows = named<"e", embedding<dim<vocab, 5>, dim<embed, 2>, ones>>;
using table = model_of<3, five_rows, identity<midst>, weighted_loss<>>;
example looked_up(std::size_t, std::size_t, std::size_t t) {
  constexpr std::int32_t rows[] = {0, 1, 3}, targets[] = {3, 4, 12};
  return {rows[t], targets[t]};
}
// Linears with biases outside of a repeated block: each is fused, and its weight and bias are gathered together.
using width = dim<embed, 2>;
using hidden = dim<mlp, 6>;
using chain = model_of<3, named<"e", embedding<dim<vocab, 5>, width, normal(1)>>,
                       residual<sequential<named<"up", linear<width, hidden, biased::yes, normal(1)>>, gelu,
                                           named<"down", linear<hidden, width, biased::yes, normal(1)>>>>,
                       weighted_loss<>>;
// A frozen scale between two matrices that are trained.
using held = model_of<3, named<"e", embedding<dim<vocab, 5>, width, normal(1)>>,
                      named<"up", linear<width, hidden, biased::no, normal(1)>>,
                      named<"scale", frozen<scaled<hidden, normal(1)>>>,
                      named<"down", linear<hidden, width, biased::no, normal(1)>>, weighted_loss<>>;
template <std::size_t Ranks, std::size_t Stage, gradient_reduction When>
struct sharded : plan<data<Ranks>, precision<fp64>, zero<Stage>, reduce_gradients<When>> {};
struct alone : plan<precision<fp64>> {};
constexpr adamw::options decaying{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.5};

template <std::size_t Ranks, std::size_t Stage, gradient_reduction When>
void check_table() {
  auto const whole = train<table, alone>({.learning_rate = 0.1, .clip = 20, .optimizer = decaying}, 3, looked_up);
  using plan_type = sharded<Ranks, Stage, When>;
  auto const parts = train<table, plan_type>(
      {.learning_rate = 0.1, .clip = 20, .optimizer = decaying}, 3, looked_up,
      // GN-3: what lies behind this rank's part is not in the norm.
      [](auto& trainer, coordinates const&) { poison_between_gradients(trainer); },
      [](auto& trainer, coordinates const& at) {
        CHECK(in_midst == nullptr);
        // What pads a part stays zero.
        auto const p = trainer.parameter(0);
        std::vector<bool> pads(p.entry->size, true);
        for_each_run(map_of_parameter<data<Ranks>>(trainer, 0, at),
                     [&](std::size_t begin, std::size_t count, std::uint64_t) {
                       std::fill_n(pads.begin() + static_cast<std::ptrdiff_t>(begin), count, false);
                     });
        for (std::size_t i = 0; i < p.entry->size; ++i)
          if (pads[i]) CHECK(p.value[i] == 0);
      });
  for (std::size_t s = 0; s < 3; ++s) {
    CHECK(parts.step[s].gradient_norm == doctest::Approx(whole.step[s].gradient_norm).epsilon(1e-12));
    CHECK(parts.step[s].loss.mean() == doctest::Approx(whole.step[s].loss.mean()).epsilon(1e-12));
  }
  auto const& e = parts.parameter.at("e.weight").value;
  for (std::size_t i = 0; i < 10; ++i)
    CHECK(e[i] == doctest::Approx(whole.parameter.at("e.weight").value[i]).epsilon(1e-12));
  // ZP-2: rows that nothing uses have a gradient of zero, so that they decay and nothing else.
  CHECK(e[8] == doctest::Approx(0.95 * 0.95 * 0.95).epsilon(1e-12));
  CHECK(e[9] == e[8]);
}

/// Parameter pointers as a module found them: of this rank's thread.
struct pointers_found {
  double const* const* use = nullptr;  ///< to its own; one before lies that of the unit before
  std::size_t visits = 0;
  bool alone = true;  ///< each time, its own was there and the other was not
};
thread_local pointers_found found;

/// Declares a parameter and a number and does nothing with them; notes what is there while it computes.
template <class Width>
struct idle : primitive {
  using parameters =
      parameter_list<parameter<"weight", dims<Width>, ones, true>, parameter<"number", dims<>, ones, true>>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    template <class Context>
    static void forward(Context&, frame<double> const& f, double const* x, double* y) {
      look(f);
      Context::backend::template copy<Place::input_size>(x, y);
    }
    template <class Context>
    static void backward(Context&, frame<double> const& f, double const*, double const*, double const* dy, double* dx) {
      look(f);
      Context::backend::template copy<Place::input_size>(dy, dx);
    }

   private:
    static void look(frame<double> const& f) {
      found.use = f.parameter;
      ++found.visits;
      found.alone = found.alone && found.use[0] != nullptr && found.use[-1] == nullptr;
    }
  };
};
// Three numbers, which two ranks pad.
using with_idle = model_of<3, five_rows, named<"idle", idle<dim<mlp, 3>>>, weighted_loss<>>;

/// `table` trained beside a parameter that nothing uses, on two ranks: as alone. `after(trainer)` runs after each step.
template <std::size_t Stage, gradient_reduction When, class After>
void check_idle(After after) {
  using plan_type = sharded<2, Stage, When>;
  basic_trainer<table, alone, host_backend>::options const options{
      .learning_rate = 0.1, .clip = 20, .optimizer = decaying};
  auto const whole = train<table, alone>(options, 3, looked_up);
  auto const parts = train<with_idle, plan_type>(
      options, 3, looked_up, [](auto&, coordinates const&) { found = {}; },
      [&](auto& trainer, coordinates const& at) {
        after(trainer);
        // The rule: its gradient is zero, so that it decays and nothing else.
        double decayed = 1;
        for (std::uint64_t s = 0; s < trainer.steps(); ++s) decayed *= 0.95;
        for (std::size_t k : {1U, 2U}) {
          auto const p = trainer.parameter(k);
          for_each_run(map_of_parameter<data<2>>(trainer, k, at), [&](std::size_t begin, std::size_t n, std::uint64_t) {
            for (std::size_t i = begin; i < begin + n; ++i)
              CHECK(p.value[i] == doctest::Approx(decayed).epsilon(1e-12));
          });
          for (std::size_t i = 0; i < p.entry->reduced_size; ++i) CHECK(p.gradient[i] == 0);
        }
        // The number is on both ranks.
        parameter_entry const& number = *trainer.parameter(2).entry;
        CHECK((number.size == 1 && number.reduced_size == 1 && number.state_size == 1));
        CHECK(found.use[1] != nullptr);
      });
  for (std::size_t s = 0; s < 3; ++s)
    CHECK(parts.step[s].gradient_norm == doctest::Approx(whole.step[s].gradient_norm).epsilon(1e-12));
  for (std::size_t i = 0; i < 10; ++i)
    CHECK(parts.parameter.at("e.weight").value[i] ==
          doctest::Approx(whole.parameter.at("e.weight").value[i]).epsilon(1e-12));
  CHECK(parts.parameter.at("idle.weight").value.size() == 3);
}

// Gradients of 3.5 MiB, whose elements all differ, in buckets of 1 MiB, 1.5 MiB and the rest.
using wide = dim<embed, 65536>;
using big = model_of<3, named<"e", embedding<dim<vocab, 6>, wide, normal(1)>>, named<"s", scaled<wide, normal(1)>>,
                     weighted_loss<>>;
template <std::size_t Stage>
struct in_three_buckets : plan<data<2>, precision<fp64>, zero<Stage>, bucket<MiB + 512 * KiB>> {};

/// What this rank's thread has sent: what the ledger says, after each step.
thread_local traffic_table sent;

template <std::size_t Stage>
void check_unlike_buckets() {
  using plan_type = in_three_buckets<Stage>;
  constexpr std::size_t ways = Stage == 0 ? 1 : 2;
  constexpr auto buckets = gradient_buckets<resolved<big, plan_type, host_backend>, stage_kind::whole>::of[0];
  static_assert(buckets.buckets() == 3 && buckets.ways == ways);
  static_assert(buckets.length_of(0) == MiB / 8 / ways && buckets.length_of(1) == 3 * MiB / 16 / ways);
  static_assert(buckets.length_of(2) == MiB / 8 / ways);
  basic_trainer<big, alone, host_backend>::options const options{.learning_rate = 0.1, .optimizer = decaying};
  auto const whole = train<big, alone>(options, 2, looked_up);
  auto const parts = train<big, plan_type>(
      options, 2, looked_up, [](auto& trainer, coordinates const&) { sent = trainer.sent(); },
      [](auto& trainer, coordinates const& at) {
        sent.add(ledger<big, plan_type>::traffic(at));
        CHECK(trainer.sent() == sent);
      });
  for (auto const& p : whole.parameter) {
    CAPTURE(p.first);
    auto const& other = parts.parameter.at(p.first);
    double worst = 0;
    for (std::size_t i = 0; i < p.second.value.size(); ++i) {
      worst = std::max(worst, std::fabs(other.value[i] - p.second.value[i]));
      worst = std::max(worst, std::fabs(other.gradient[i] - p.second.gradient[i]));
    }
    CHECK(worst <= 1e-11);
  }
}

}  // namespace

TEST_CASE("LS-3, ZP-2: more ranks than rows, empty parts, unused rows") {
  // The batch is one sequence a rank: mean loss and gradient do not depend on their number.
  check_table<2, 1, per_step>();
  check_table<4, 2, per_step>();
  check_table<8, 3, per_step>();
  check_table<8, 3, per_micro_batch>();
  check_table<3, 0, per_micro_batch>();
}

TEST_CASE("ZP-1: three ranks, whose last part pads, train as eight and as one") {
  check_table<3, 1, per_step>();
  check_table<3, 3, per_micro_batch>();
}

TEST_CASE("ZP-2: a parameter that nothing uses holds nothing up, and decays on all ranks alike") {
  auto const nothing = [](auto&) {};
  check_idle<1, per_step>(nothing);
  check_idle<2, per_micro_batch>(nothing);
}

TEST_CASE("TE-2, ZP-2: a gathered parameter is there while its unit computes, and at no other time") {
  check_idle<3, per_step>([](auto& trainer) {
    CHECK(found.alone);
    CHECK((found.use[0] == nullptr && found.use[-1] == nullptr));
    std::size_t const before = found.visits;
    std::vector<std::int32_t> const tokens(trainer.local_tokens, 1);
    trainer.evaluate(tokens, tokens);
    CHECK(found.visits == before + 1);
    CHECK((found.use[0] == nullptr && found.use[-1] == nullptr));
  });
}

TEST_CASE("the first bucket is smaller than those after it, and the last has the rest") {
  check_unlike_buckets<0>();
  check_unlike_buckets<3>();
}

TEST_CASE("fused linears, gathered as they are needed, train as on one rank") {
  basic_trainer<chain, alone, host_backend>::options const options{
      .learning_rate = 0.1, .clip = 20, .optimizer = decaying};
  auto const whole = train<chain, alone>(options, 3, looked_up);
  auto const parts = train<chain, sharded<2, 3, per_micro_batch>>(options, 3, looked_up);
  CHECK(whole.parameter.size() == 5);
  for (auto const& p : whole.parameter) {
    CAPTURE(p.first);
    for (std::size_t i = 0; i < p.second.value.size(); ++i)
      CHECK(parts.parameter.at(p.first).value[i] == doctest::Approx(p.second.value[i]).epsilon(1e-12));
  }
}

TEST_CASE("ZP-4: a frozen scale that rests in parts is whole in backward, and is never written") {
  basic_trainer<held, alone, host_backend>::options const options{
      .learning_rate = 0.1, .clip = 20, .optimizer = decaying};
  auto const start = train<held, alone>(options, 0, looked_up), whole = train<held, alone>(options, 3, looked_up);
  auto const check = [&](trained const& parts) {
    CHECK(parts.parameter.at("scale.weight").value == start.parameter.at("scale.weight").value);
    CHECK(parts.parameter.at("scale.weight").gradient.empty());
    for (auto const& name : {"e.weight", "up.weight", "down.weight"}) {
      CAPTURE(name);
      auto const &joined = parts.parameter.at(name), &expected = whole.parameter.at(name);
      CHECK(joined.value != start.parameter.at(name).value);
      REQUIRE(joined.gradient.size() == expected.gradient.size());
      for (std::size_t i = 0; i < joined.value.size(); ++i) {
        CHECK(joined.value[i] == doctest::Approx(expected.value[i]).epsilon(1e-12));
        CHECK(joined.gradient[i] == doctest::Approx(expected.gradient[i]).epsilon(1e-10));
      }
    }
  };
  check(whole);
  check(train<held, sharded<2, 3, per_micro_batch>>(options, 3, looked_up));
  check(train<held, sharded<4, 3, per_step>>(options, 3, looked_up));
}

TEST_CASE("TE-2: outside a step a rank has its own part of a parameter, and knows which") {
  run<sharded<4, 3, per_step>>(threads, [](auto& rank) {
    trainer<table, sharded<4, 3, per_step>> trainer(rank);
    auto const p = trainer.parameter(0);
    // Along the rows, with padding 8 of 5; along the columns 4 of 2.
    CHECK(p.entry->size == 4);
    index_map const map = local_index_map(data<4>::value, p.entry->dims, p.entry->rest, rank.at());
    std::size_t real = 0;
    for_each_run(map, [&](std::size_t, std::size_t count, std::uint64_t) { real += count; });
    constexpr std::size_t rows[] = {2, 2, 1, 0};
    CHECK(real == 2 * rows[rank.rank()]);
    for (std::size_t i = 0; i < p.entry->size; ++i) CHECK(p.value[i] == (i < real ? 1.0 : 0.0));
  });
}

}  // namespace faults_zero
