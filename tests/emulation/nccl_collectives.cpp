// SPDX-License-Identifier: Apache-2.0
// The collectives of ranks over NCCL: what tests/comm/threads.cpp demands of thread ranks.
#include <doctest/doctest.h>

#include <Eigen/Core>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "../comm/collectives.hpp"
#include "../comm/watchdog.hpp"
#include "nccl_ranks.hpp"

namespace {

using namespace heddle::testing;
constexpr std::chrono::seconds patience{120};

// Empty, fewer elements than ranks, a multiple of few of them, and more than a block of threads has at once.
std::vector<std::size_t> const counts{0, 1, 3, 7, 8, 257, 840};

}  // namespace

TEST_CASE("nccl: reductions, gathers and broadcasts on 1 to 8 ranks") {
  watchdog const guard(patience);
  std::uint64_t seed = 0;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks)
    over_nccl([&] { check_reductions_and_gathers<nccl_ranks, float>(ranks, counts); }, {seed++ % 6});
}
TEST_CASE("nccl: every element type is reduced and moved, also those that NCCL lacks") {
  watchdog const guard(patience);
  over_nccl(
      [&] {
        check_reductions_and_gathers<nccl_ranks, double>(3, counts);
        check_reductions_and_gathers<nccl_ranks, std::int8_t>(3, counts);
        check_reductions_and_gathers<nccl_ranks, std::int16_t>(3, counts);
        check_reductions_and_gathers<nccl_ranks, std::uint16_t>(3, counts);
        check_reductions_and_gathers<nccl_ranks, std::int64_t>(3, counts);
        check_reductions_and_gathers<nccl_ranks, std::uint32_t>(3, counts);
      },
      {0, 3});
}
TEST_CASE("nccl: all-to-all of equal and unequal blocks") {
  watchdog const guard(patience);
  std::uint64_t seed = 0;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks)
    over_nccl([&] { check_all_to_all<nccl_ranks>(ranks, 1001); }, {seed++ % 6});
}
TEST_CASE("nccl: max and min keep a NaN of any rank, which NCCL's own drop") {
  watchdog const guard(patience);
  over_nccl([] { check_nan_is_kept<nccl_ranks>(); });
}
TEST_CASE("nccl: transfers meet in the order of their calls") {
  watchdog const guard(patience);
  over_nccl([] { check_transfers_in_order<nccl_ranks>(); });
}
TEST_CASE("nccl: split and subset") {
  watchdog const guard(patience);
  over_nccl([] {
    check_split<nccl_ranks>();
    check_subset<nccl_ranks>();
  });
}
TEST_CASE("nccl: two host threads of each rank use groups of their own") {
  watchdog const guard(patience);
  over_nccl([] { check_two_threads_of_a_rank<nccl_ranks>(20); });
}
