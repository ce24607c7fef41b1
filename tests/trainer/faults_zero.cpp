// SPDX-License-Identifier: Apache-2.0
// known-faults ZP-1, ZP-2, LS-3, GN-3, TE-2: parts that pad, parts that are empty, parameters that nothing uses.
#include <heddle/heddle.hpp>
#include <limits>

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
using table = model_of<3, named<"e", embedding<dim<vocab, 5>, dim<embed, 2>, ones>>, weighted_loss<>>;
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
template <std::size_t Ranks, std::size_t Stage, gradient_reduction When>
struct sharded : plan<data<Ranks>, precision<fp64>, zero<Stage>, reduce_gradients<When>> {};
struct alone : plan<precision<fp64>> {};
constexpr adamw::options decaying{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .weight_decay = 0.5};

template <std::size_t Ranks, std::size_t Stage, gradient_reduction When>
void check_table() {
  auto const nothing = [](auto&, coordinates const&) {};
  auto const whole = train<table, alone>({.learning_rate = 0.1, .clip = 20, .optimizer = decaying}, 3, looked_up);
  using plan_type = sharded<Ranks, Stage, When>;
  auto const parts = train<table, plan_type>(
      {.learning_rate = 0.1, .clip = 20, .optimizer = decaying}, 3, looked_up,
      [](auto& trainer, coordinates const&) {
        // GN-3: what lies behind this rank's part is not in the norm.
        auto const p = trainer.parameter(0);
        for (std::size_t i = p.entry->size; i < slot<double>(p.entry->size); ++i)
          p.value[i] = std::numeric_limits<double>::quiet_NaN();
      },
      nothing);
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

}  // namespace

TEST_CASE("LS-3, ZP-2: more ranks than rows, empty parts, unused rows") {
  // The batch is one sequence a rank: mean loss and gradient do not depend on their number.
  check_table<2, 1, per_step>();
  check_table<4, 2, per_step>();
  check_table<8, 3, per_step>();
  check_table<8, 3, per_micro_batch>();
  check_table<3, 0, per_micro_batch>();
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
