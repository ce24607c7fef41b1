// SPDX-License-Identifier: Apache-2.0
// known-faults GN-1, GN-2, GN-3: each element of the gradient enters the global norm once.
#include <cmath>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_norm {
namespace {
using four = dim<mlp, 4>;
// L = Σ_j b_j · w with w = 2 and b_j = 3/4: dL/dw = 3, dL/db_j = 2. All bits are exact.
using split_and_replicated =
    model_of<1, scalar<>, named<"b", product<dims<unit_dim>, dims<four>, zeros>>, weighted_loss<>>;

template <class Mesh>
struct on : plan<Mesh, sequence_parallel<false>, precision<fp64>, optimizer<sgd>> {};
template <class Mesh, std::size_t Stage>
struct split_on : plan<Mesh, sequence_parallel<false>, precision<fp64>, optimizer<sgd>, zero<Stage>> {};

template <class Plan>
step_result step_of_both() {
  return train<split_and_replicated, Plan>(
             {}, 1,
             [](std::size_t, std::size_t, std::size_t) {
               return example{0, 1};
             },
             [](auto& trainer, coordinates const& at) {
               set_parameter<typename Plan::mesh>(trainer, at, "w.weight", [](std::uint64_t) { return 2; });
               set_parameter<typename Plan::mesh>(trainer, at, "b.weight", [](std::uint64_t) { return 0.75; });
             },
             [](auto&, coordinates const&) {})
      .step[0];
}
}  // namespace

TEST_CASE("GN-1: a replicated parameter counts once, a sharded one on each rank") {
  CHECK(step_of_both<on<mesh<>>>().gradient_norm == 5.0);
  CHECK(step_of_both<on<mesh<axis<tp, 2>>>>().gradient_norm == 5.0);
  CHECK(step_of_both<on<mesh<axis<tp, 4>>>>().gradient_norm == 5.0);  // counted per rank: 7.211103
  CHECK(step_of_both<on<mesh<axis<dp, 2>, axis<tp, 2>>>>().gradient_norm == 5.0);
  CHECK(step_of_both<on<mesh<axis<dp, 4>>>>().gradient_norm == 5.0);
  // Under ZeRO too: a part is one rank's, and the scalar, which pads, is on the first alone.
  using both = mesh<axis<dp, 2>, axis<tp, 2>>;
  CHECK(step_of_both<split_on<both, 1>>().gradient_norm == 5.0);
  CHECK(step_of_both<split_on<both, 2>>().gradient_norm == 5.0);
  CHECK(step_of_both<split_on<both, 3>>().gradient_norm == 5.0);
}

namespace {
// A table of four rows, split over tp: rank 0 has rows 0 and 1. The gradient of a row is the sum of its targets.
using table =
    model_of<3, named<"e", embedding<dim<vocab, 4>, unit_dim, zeros>>, identity<midst>, weighted_loss<factor{3}>>;
/// Rank 0 owns rows 0 and 1 of the reduced gradient alone.
template <std::size_t Stage>
struct in_halves : plan<mesh<axis<dp, 2>>, precision<fp64>, optimizer<sgd>, zero<Stage>> {};

/// The norm for tokens (0, 1, 3) or their mirror (3, 2, 0) with targets 3, 4, 12; in the midst of the step, what lies
/// between reduced gradients is NaN.
template <class Plan>
step_result step_of_table(bool mirrored) {
  return train<table, Plan>(
             {}, 1,
             [&](std::size_t, std::size_t, std::size_t t) {
               constexpr std::int32_t rows[] = {0, 1, 3}, targets[] = {3, 4, 12};
               return example{mirrored ? 3 - rows[t] : rows[t], targets[t]};
             },
             [](auto& trainer, coordinates const&) { poison_between_gradients(trainer); },
             [](auto& trainer, coordinates const&) {
               auto const p = trainer.parameter(0);
               CHECK(slot<double>(p.entry->reduced_size) > p.entry->reduced_size);
               CHECK(std::isnan(p.gradient[p.entry->reduced_size]));
             })
      .step[0];
}
}  // namespace

TEST_CASE("GN-2: disjoint parts are summed; which rank holds which part does not matter") {
  using tp2 = on<mesh<axis<tp, 2>>>;
  CHECK(step_of_table<tp2>(false).gradient_norm == 13.0);  // averaged: 8.5
  CHECK(step_of_table<tp2>(true).gradient_norm == 13.0);
  CHECK(step_of_table<on<mesh<axis<dp, 2>, axis<tp, 2>>>>(false).gradient_norm == 13.0);
}
TEST_CASE("GN-3: memory that is not of a rank's reduced gradients takes no part in the norm") {
  CHECK(step_of_table<on<mesh<>>>(false).gradient_norm == 13.0);
  CHECK(step_of_table<on<mesh<axis<tp, 4>>>>(false).gradient_norm == 13.0);
  // Both ranks have the unreduced gradients of all rows: once a step (1), or of a unit at a time (2, 3).
  CHECK(step_of_table<in_halves<1>>(false).gradient_norm == 13.0);
  CHECK(step_of_table<in_halves<2>>(false).gradient_norm == 13.0);
  CHECK(step_of_table<in_halves<3>>(false).gradient_norm == 13.0);
}

TEST_CASE("the norm of a padded table: padding has a gradient of zero, whatever is looked up") {
  using five = model_of<1, named<"e", embedding<dim<vocab, 5>, unit_dim, ones>>, weighted_loss<>>;
  using tp4 = on<mesh<axis<tp, 4>>>;
  auto const result = train<five, tp4>(
      {}, 1,
      [](std::size_t, std::size_t, std::size_t) {
        return example{4, 7};
      },
      [](auto&, coordinates const&) {},
      [](auto& trainer, coordinates const& at) {
        // 5 rows stored as 8: the last rank has none, the third has row 4 and padding.
        auto const p = trainer.parameter(0);
        CHECK(p.entry->size == 2);
        if (at[0] == 2) CHECK(p.gradient[1] == 0);
        if (at[0] == 3) CHECK((p.gradient[0] == 0 && p.gradient[1] == 0));
      });
  CHECK(result.step[0].gradient_norm == 7.0);
}

}  // namespace faults_norm
