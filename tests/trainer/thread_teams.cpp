// SPDX-License-Identifier: Apache-2.0
// Threads per rank are a setting of the run: they change no bit, allocate nothing in a step, and fail like the rest.
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace thread_teams_test {
namespace {

/// Wide enough that its products, norms, attention and dropout have several parts.
using model = gpt2<gpt2_config{.vocabulary = 67, .context = 48, .layers = 1, .heads = 4, .width = 96, .dropout = 0.1}>;
struct serial : plan<global_batch<8>> {};
struct split : plan<mesh<axis<dp, 2>, axis<tp, 2>>, global_batch<8>> {};

/// Loss, norm and parameters of each rank after some steps.
template <class Plan>
std::vector<std::vector<float>> after_steps(threads_type where) {
  using trainer_type = trainer<model, Plan>;
  std::vector<std::vector<float>> all(Plan::mesh::size);
  run<Plan>(where, [&](auto& rank) {
    trainer_type trainer(rank, {.seed = 3, .learning_rate = 1e-2, .clip = 0.5});
    std::vector<std::int32_t> tokens(trainer_type::local_tokens), targets(trainer_type::local_tokens);
    auto& mine = all[rank.rank()];
    for (std::size_t s = 0; s < 2; ++s) {
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        tokens[i] = static_cast<std::int32_t>((i * i + s) % 67);
        targets[i] = static_cast<std::int32_t>((i * i + 5 * s + 1) % 67);
      }
      auto const result = trainer.step(tokens, targets);
      mine.push_back(static_cast<float>(result.loss.sum));
      mine.push_back(static_cast<float>(result.gradient_norm));
    }
    for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
      auto const p = trainer.parameter(n);
      mine.insert(mine.end(), p.value, p.value + p.entry->size);
    }
  });
  return all;
}

}  // namespace

TEST_CASE("two and three threads per rank give the bits of one") {
  auto const one = after_steps<serial>(threads);
  CHECK(one[0].size() > 100000);
  CHECK(after_steps<serial>(threads.per_rank(2)) == one);
  CHECK(after_steps<serial>(threads.per_rank(3)) == one);
}
TEST_CASE("two threads per rank on four ranks give the bits of one") {
  CHECK(after_steps<split>(threads.per_rank(2)) == after_steps<split>(threads));
}
TEST_CASE("a rank has the team that the run says, and none afterwards") {
  run<split>(threads.per_rank(3), comm::thread_options{}, [&](auto&) {
    auto* const team = host::thread_team::of_this_thread();
    REQUIRE(team != nullptr);
    CHECK(team->size() == 3);
  });
  run<split>(threads, [&](auto&) { CHECK(host::thread_team::of_this_thread() == nullptr); });
  CHECK_THROWS_WITH_AS(run<serial>(threads.per_rank(0), [](auto&) {}), doctest::Contains("'size' is 0"),
                       comm::rank_failed);
}
TEST_CASE("what a part throws ends the run") {
  CHECK_THROWS_WITH_AS(run<split>(threads.per_rank(2),
                                  [](auto& rank) {
                                    host::detail::deal(8, [&](std::size_t part) {
                                      if (rank.rank() == 2 && part == 7) throw error("part 7: broken; mend it");
                                    });
                                    rank.template along<tp>().barrier();
                                  }),
                       doctest::Contains("part 7: broken"), comm::rank_failed);
}

}  // namespace thread_teams_test
