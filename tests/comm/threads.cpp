// SPDX-License-Identifier: Apache-2.0
#include <heddle/comm/threads.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives.hpp"
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::thread_ranks;
using heddle::testing::watchdog;

namespace threads_test {
namespace {

// Empty, fewer elements than ranks, not a multiple, blocks and a rest, and one that the ranks share (> 128 KiB).
std::vector<std::size_t> const counts{0, 1, 3, 7, 8, 257, 1000, 20011};

template <class T>
void reductions_and_gathers(std::size_t ranks) {
  heddle::testing::check_reductions_and_gathers<thread_ranks, T>(ranks, counts);
}

}  // namespace

TEST_CASE("reductions, gathers and broadcasts on 1 to 8 ranks") {
  watchdog const guard(std::chrono::seconds(60));
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    reductions_and_gathers<float>(ranks);
  }
}

TEST_CASE("every element type is reduced and moved") {
  watchdog const guard(std::chrono::seconds(60));
  reductions_and_gathers<double>(3);
  reductions_and_gathers<std::int8_t>(3);
  reductions_and_gathers<std::int16_t>(3);
  reductions_and_gathers<std::int32_t>(3);
  reductions_and_gathers<std::int64_t>(3);
  reductions_and_gathers<std::uint8_t>(3);
  reductions_and_gathers<std::uint16_t>(3);
  reductions_and_gathers<std::uint32_t>(3);
  reductions_and_gathers<std::uint64_t>(3);
}

TEST_CASE("all-to-all of equal and unequal blocks") {
  watchdog const guard;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) heddle::testing::check_all_to_all<thread_ranks>(ranks, 3001);
}

TEST_CASE("a reduction has the order of the ranks, the same bits everywhere and every time") {
  watchdog const guard;
  for (std::size_t const count : {std::size_t{5}, std::size_t{40000}})
    heddle::testing::check_order_of_reductions<thread_ranks>(count, 5);
}

TEST_CASE("max and min keep a NaN of any rank") {
  watchdog const guard;
  heddle::testing::check_nan_is_kept<thread_ranks>();
}

TEST_CASE("transfers meet in the order of their calls, in both directions, whoever comes first") {
  watchdog const guard;
  heddle::testing::check_transfers_in_order<thread_ranks>();
}

TEST_CASE("split orders by key, names the groups and numbers their ranks") {
  watchdog const guard;
  heddle::testing::check_split<thread_ranks>();
}

TEST_CASE("a subset is called by its members alone, in the order of its list") {
  watchdog const guard;
  heddle::testing::check_subset<thread_ranks>();
}

TEST_CASE("two host threads of each rank use their own groups for 1000 rounds (NC-3)") {
  watchdog const guard(std::chrono::seconds(60));
  heddle::testing::check_two_threads_of_a_rank<thread_ranks>(1000);
}

TEST_CASE("the example of the reference page") {
  watchdog const guard;
  std::atomic<int> right{0};
  // [communicate]
  run_threads(4, [&](thread_communicator& world) {
    // ranks 0 1 | 2 3 hold parts of one layer; ranks 0 2 | 1 3 hold copies
    thread_communicator tensor = world.split(world.rank() / 2, world.rank(), "tp");
    thread_communicator data = world.split(world.rank() % 2, world.rank(), "dp");

    std::vector<float> gradient(1000, 1.0f), activation(64, 2.0f);
    thread_handle reduced = data.all_reduce_async(std::span(gradient));  // runs beside what follows
    tensor.all_reduce(std::span(activation));
    reduced.wait();  // until here `gradient` is not ours

    if (gradient[0] == 2.0f && activation[0] == 4.0f) ++right;
  });
  // [/communicate]
  CHECK(right == 4);
}

}  // namespace threads_test
