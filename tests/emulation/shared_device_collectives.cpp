// SPDX-License-Identifier: Apache-2.0
// The collectives of ranks that share a device: what tests/comm/threads.cpp demands of thread ranks.
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "../comm/collectives.hpp"
#include "../comm/watchdog.hpp"
#include "shared_device_ranks.hpp"

namespace {

using namespace heddle::testing;
using ranks_here = shared_device_ranks;
constexpr std::chrono::seconds patience{120};

// Empty, fewer elements than ranks, not a multiple, and more than a block of threads has at once.
std::vector<std::size_t> const counts{0, 1, 3, 7, 8, 257, 2001};

}  // namespace

TEST_CASE("shared device: reductions, gathers and broadcasts on 1 to 8 ranks") {
  watchdog const guard(patience);
  std::uint64_t seed = 0;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks)
    on_shared_devices([&] { check_reductions_and_gathers<ranks_here, float>(ranks, counts); }, {seed++ % 6});
}
TEST_CASE("shared device: every element type is reduced and moved") {
  watchdog const guard(patience);
  on_shared_devices(
      [&] {
        check_reductions_and_gathers<ranks_here, double>(3, counts);
        check_reductions_and_gathers<ranks_here, std::int8_t>(3, counts);
        check_reductions_and_gathers<ranks_here, std::int16_t>(3, counts);
        check_reductions_and_gathers<ranks_here, std::int64_t>(3, counts);
        check_reductions_and_gathers<ranks_here, std::uint32_t>(3, counts);
      },
      {0, 3});
}
TEST_CASE("shared device: all-to-all of equal and unequal blocks") {
  watchdog const guard(patience);
  std::uint64_t seed = 0;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks)
    on_shared_devices([&] { check_all_to_all<ranks_here>(ranks, 1001); }, {seed++ % 6});
}
TEST_CASE("shared device: reductions have the order of the ranks") {
  watchdog const guard(patience);
  on_shared_devices([] {
    check_order_of_reductions<ranks_here>(5, 1);
    check_order_of_reductions<ranks_here>(4001, 1);
  });
}
TEST_CASE("shared device: max and min keep a NaN of any rank") {
  watchdog const guard(patience);
  on_shared_devices([] { check_nan_is_kept<ranks_here>(); });
}
TEST_CASE("shared device: transfers meet in the order of their calls") {
  watchdog const guard(patience);
  on_shared_devices([] { check_transfers_in_order<ranks_here>(); });
}
TEST_CASE("shared device: split and subset") {
  watchdog const guard(patience);
  on_shared_devices([] {
    check_split<ranks_here>();
    check_subset<ranks_here>();
  });
}
TEST_CASE("shared device: two host threads of each rank use groups of their own") {
  watchdog const guard(patience);
  on_shared_devices([] { check_two_threads_of_a_rank<ranks_here>(20); });
}
