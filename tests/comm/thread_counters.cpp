// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "counted.hpp"
#include "watchdog.hpp"

using heddle::testing::thread_ranks;
using heddle::testing::watchdog;

namespace thread_counters_test {

TEST_CASE("counted copies equal the traffic functions") {
  watchdog const guard(std::chrono::seconds(60));
  // The last one is above the size that one rank copies for all (128 KiB in all).
  for (std::size_t ranks = 1; ranks <= 8; ++ranks)
    heddle::testing::check_counters<thread_ranks>(ranks, {0, 1, 5, 8, 100, 50001});
}

TEST_CASE("each communicator counts for itself") {
  watchdog const guard;
  heddle::testing::check_counters_of_groups<thread_ranks>();
}

}  // namespace thread_counters_test
