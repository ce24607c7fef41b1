// SPDX-License-Identifier: Apache-2.0
// known-faults VP-1, VP-2, VP-3: a vocabulary that does not divide.
#include <cmath>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_vocabulary {
namespace {

template <std::size_t Vocabulary, std::size_t Width>
struct classifier {
  using words = dim<vocab, Vocabulary>;
  using width = dim<embed, Width>;
  static constexpr std::size_t context = 4, vocabulary = Vocabulary;
  using module = sequential<named<"in", embedding<words, width, normal(1)>>,
                            named<"out", product<dims<width>, dims<words>, normal(1)>>, cross_entropy<words>>;
};
template <std::size_t Ways, std::size_t Multiple = 1>
struct split : plan<mesh<axis<tp, Ways>>, padding<pad<vocab, Multiple>>, precision<fp64>> {};

/// Of the initial parameters, or of whole numbers, whose sums are exact.
template <class Plan>
std::vector<double> logits_under(bool whole_numbers) {
  std::vector<double> out;
  std::mutex one_at_a_time;
  run<Plan>(threads, [&](auto& rank) {
    trainer<classifier<13, 8>, Plan> trainer(rank, {.seed = 3});
    if (whole_numbers)
      for (std::string const name : {"in.weight", "out.weight"})
        set_parameter<typename Plan::mesh>(trainer, rank.at(), name,
                                           [](std::uint64_t n) { return static_cast<double>(n * n % 101) - 50; });
    std::vector<std::int32_t> const tokens = {0, 12, 5, 7};
    auto const mine = trainer.logits(tokens);
    std::lock_guard const lock(one_at_a_time);
    if (out.empty()) out = mine;
    CHECK(mine == out);  // the same on every rank
  });
  return out;
}
}  // namespace

TEST_CASE("VP-1: logits have the real columns, the same under tp 1, 2 and 4") {
  for (bool const whole_numbers : {true, false}) {
    CAPTURE(whole_numbers);
    auto const one = logits_under<split<1>>(whole_numbers);
    REQUIRE(one.size() == 4 * 13);
    for (auto const& found : {logits_under<split<2>>(whole_numbers), logits_under<split<4>>(whole_numbers)}) {
      REQUIRE(found.size() == one.size());
      // Whole numbers have one sum in any order, so the logits are bitwise equal. Of 8 products of order 1, the place
      // of a column in its rank's block decides the order: they differ by a few roundings of 1e-16 (seen: 9e-16).
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(std::fabs(found[i] - one[i]) <= (whole_numbers ? 0 : 1e-14));
    }
  }
}

namespace {
/// All real logits are 0, as the head is; what a rank stores beyond the vocabulary stays zero.
template <class Plan>
void check_padded_loss(std::size_t stored) {
  using model = classifier<5, 2>;
  run<Plan>(threads, [&](auto& rank) {
    trainer<model, Plan> trainer(rank, {.learning_rate = 0});
    set_parameter<typename Plan::mesh>(trainer, rank.at(), "out.weight", [](std::uint64_t) { return 0; });
    std::vector<std::int32_t> const tokens = {0, 1, 2, 3}, targets = {4, 3, 0, 1};
    auto const result = trainer.step(tokens, targets);
    CHECK(result.loss.mean() == doctest::Approx(1.609438).epsilon(1e-6));  // ln 5; with padded columns ln 8 = 2.079442
    CHECK(result.loss.mean() == doctest::Approx(std::log(5.0)).epsilon(1e-15));
    for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
      auto const p = trainer.parameter(n);
      CHECK(p.entry->dims.dim[0].stored == stored);
      auto const map = map_of_parameter<typename Plan::mesh>(trainer, n, rank.at());
      for (std::size_t row = map.valid[0]; row < map.extent[0]; ++row)
        for (std::size_t k = 0; k < 2; ++k) {
          CHECK(p.gradient[row * 2 + k] == 0.0);
          CHECK(p.value[row * 2 + k] == 0.0);
        }
    }
  });
  // Identities that exist only as padding are errors, as tokens and as targets.
  for (std::int32_t id : {5, 6, 7, -1})
    for (bool as_target : {false, true}) {
      CAPTURE(id);
      std::string text;
      try {
        run<Plan>(threads, [&](auto& rank) {
          trainer<model, Plan> trainer(rank);
          std::vector<std::int32_t> tokens = {0, 1, 2, 3}, targets = tokens;
          (as_target ? targets : tokens)[2] = id;
          trainer.step(tokens, targets);
        });
      } catch (error const& e) {
        text = e.what();
      }
      CHECK(text.find(std::to_string(id)) != std::string::npos);
      CHECK(text.find("vocabulary") != std::string::npos);
      CHECK(text.find('4') != std::string::npos);  // the last identity
    }
}
}  // namespace

TEST_CASE("VP-2: padded columns take no part in the softmax, and padded rows have gradients of zero") {
  check_padded_loss<split<2, 4>>(8);
  check_padded_loss<split<4>>(8);
}

namespace {
/// The stored size of the vocabulary in every table of the model under tp = Ways, or 0 if they differ.
template <std::size_t Ways, std::size_t Multiple>
constexpr std::size_t stored_vocabulary() {
  struct plan_type : plan<mesh<axis<tp, Ways>>, sequence_parallel<false>, padding<pad<vocab, Multiple>>> {};
  using R = resolved<classifier<50100, 1>, plan_type, host_backend>;
  using parameters = stage_parameters<R, stage_kind::whole>;
  std::size_t const stored = parameters::entry[0].dims.dim[0].stored;
  for (std::size_t n = 0; n < parameters::count; ++n) {
    auto const& e = parameters::entry[n];
    // Parameter, gradient and optimizer state lie in arenas of the same offsets: `size` is that of all.
    if (e.dims.dim[0].stored != stored || e.size != stored / Ways) return 0;
  }
  return stored;
}
template <std::size_t Ways>
constexpr bool padded_right =
    stored_vocabulary<Ways, 64>() == padded_size(50100, Ways, 64) && stored_vocabulary<Ways, 64>() % (64 * Ways) == 0 &&
    stored_vocabulary<Ways, 64>() - 50100 < 64 * Ways;
static_assert(stored_vocabulary<1, 64>() == 50112);
static_assert(stored_vocabulary<2, 64>() == 50176);
static_assert(padded_right<1> && padded_right<2> && padded_right<3> && padded_right<4>);
static_assert(padded_right<5> && padded_right<6> && padded_right<7> && padded_right<8>);
}  // namespace

TEST_CASE("VP-3: one function computes the padded size, for table, head and optimizer state") {
  CHECK(padded_size(50100, 1, 64) == 50112);
  CHECK(padded_size(50100, 2, 64) == 50176);
}

}  // namespace faults_vocabulary
