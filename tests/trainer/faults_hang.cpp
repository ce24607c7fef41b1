// SPDX-License-Identifier: Apache-2.0
// known-faults HT-1 and HT-3 in a training step: a rank that throws or does not come ends the others.
#include <atomic>
#include <chrono>
#include <heddle/heddle.hpp>
#include <string>

#include "comm/watchdog.hpp"
#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_hang {
namespace {

/// Ranks count for themselves, being threads.
thread_local std::size_t this_rank = 0, backwards = 0;
std::atomic<bool> armed = false;
void fail_third_backward_of_rank_1() {
  if (armed && this_rank == 1 && backwards++ == 2) throw error("the block is worn out");
}
using faulty = identity<fail_third_backward_of_rank_1>;

using model = model_of<2, scalar<ones>, named<"h", repeat<dim<layers, 4>, faulty>>, weighted_loss<>>;
template <class Mesh, std::size_t MicroBatches>
struct on : plan<Mesh, accumulate<MicroBatches>, precision<fp64>> {};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Micro-batch 2 fails on rank 1: each layer is one backward, so with one layer per rank the third is micro-batch 2.
template <class Plan>
void check_throwing_rank() {
  watchdog const dog;
  std::atomic<int> told{0};
  std::string text;
  auto const start = std::chrono::steady_clock::now();
  armed = true;
  auto const work = [&](auto& rank) {
    this_rank = rank.rank();
    backwards = 0;
    trainer<model, Plan> trainer(rank);
    try {
      step_on(trainer, 0, [](std::size_t, std::size_t, std::size_t) { return example{0, 1}; });
    } catch (error const& e) {
      std::string const mine = e.what();
      bool const names_it = mine.find("the block is worn out") != std::string::npos &&
                            (rank.rank() == 1 || mine.find("rank 1") != std::string::npos);
      told += names_it ? 1 : 0;
      throw;
    }
  };
  try {
    run<Plan>(threads, work);
  } catch (comm::rank_failed const& e) {
    text = e.what();
    CHECK(e.rank() == 1);
  }
  CHECK(seconds_since(start) < 5);
  CHECK(told == 4);
  CHECK(text.find("rank 1") != std::string::npos);
  CHECK(text.find("the block is worn out") != std::string::npos);
  // A fresh group works.
  armed = false;
  std::atomic<int> ended{0};
  run<Plan>(threads, [&](auto& rank) {
    work(rank);
    ++ended;
  });
  CHECK(ended == 4);
}

}  // namespace

TEST_CASE("HT-1: a module throws in backward while the others wait for a pipeline transfer") {
  check_throwing_rank<on<mesh<axis<pp, 4>>, 4>>();
}
TEST_CASE("HT-1: a module throws in backward while the others wait in the reduction of gradients") {
  check_throwing_rank<on<mesh<axis<dp, 4>>, 1>>();
}

TEST_CASE("HT-3: a missing rank: the wait ends in time, later calls throw at once, and nothing is updated") {
  using plan_type = on<mesh<axis<dp, 2>>, 1>;
  watchdog const dog;
  auto const start = std::chrono::steady_clock::now();
  std::atomic<bool> rank_0_is_done = false;
  auto const data = [](std::size_t, std::size_t, std::size_t) { return example{0, 1}; };
  auto const train_or_stay_away = [&](auto& rank) {
    trainer<model, plan_type> trainer(rank, {.learning_rate = 1});
    if (rank.rank() == 1) {
      while (!rank_0_is_done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    std::string text;
    try {
      step_on(trainer, 0, data);
    } catch (comm::operation_timeout const& e) {
      text = e.what();
    }
    CHECK(text.find('1') != std::string::npos);
    CHECK(seconds_since(start) < 2);
    auto const later = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH_AS(step_on(trainer, 0, data), doctest::Contains("an earlier call midway"), error);
    CHECK(seconds_since(later) < 0.2);
    CHECK(trainer.parameter(0).value[0] == 1.0);
    CHECK(trainer.steps() == 0);
    rank_0_is_done = true;
  };
  CHECK_THROWS_AS(run<plan_type>(threads, comm::thread_options{.timeout = std::chrono::seconds(1)}, train_or_stay_away),
                  comm::operation_timeout);
  CHECK(rank_0_is_done);
}

}  // namespace faults_hang
