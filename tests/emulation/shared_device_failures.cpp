// SPDX-License-Identifier: Apache-2.0
// Failures of ranks that share a device: what tests/comm/thread_failures.cpp demands of thread ranks.
#include <doctest/doctest.h>

#include "../comm/failing.hpp"
#include "../comm/watchdog.hpp"
#include "shared_device_ranks.hpp"

using namespace heddle::testing;
using ranks_here = shared_device_ranks;

TEST_CASE("shared device: a rank that throws ends ranks in every kind of call, with its text (HT-1)") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_a_rank_that_throws<ranks_here>(); }, {0, 1, 2, 3});
}
TEST_CASE("shared device: a failure reaches other groups, later calls, and things that are no std::exception") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_failure_reaches_all<ranks_here>(); }, {0, 1, 2, 3});
}
TEST_CASE("shared device: nothing is communicated and nothing blocks while an exception unwinds (HT-2)") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_unwinding<ranks_here>(); }, {0, 1, 2, 3});
}
TEST_CASE("shared device: a rank that swallows the exception cannot go on after an abandoned operation (HT-2)") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_abandoned_operation<ranks_here>(); }, {0, 1, 2, 3});
}
TEST_CASE("shared device: a missing peer is a timeout for the caller, and every later call throws at once (HT-3)") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_missing_peer<ranks_here>(); }, {0, 3});
}
TEST_CASE(
    "shared device: a receive without a send, and an asynchronous operation without a peer, time out too (HT-3)") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_other_timeouts<ranks_here>(); }, {0, 3});
}
TEST_CASE("shared device: ranks with unlike numbers of calls are told both numbers (UN-2)") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_unlike_numbers_of_calls<ranks_here>(); }, {0, 1, 2, 3});
}
TEST_CASE("shared device: a transfer with a rank that has returned is refused") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_transfer_with_one_that_returned<ranks_here>(); }, {0, 1, 2, 3});
}
TEST_CASE("shared device: the same arguments are required of all ranks, of each rank's own too") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_arguments<ranks_here>(); }, {0, 3});
}
TEST_CASE("shared device: a communicator that outlives its run refuses calls") {
  watchdog const guard(std::chrono::seconds(60));
  on_shared_devices([] { check_communicator_that_outlives_its_run<ranks_here>(); }, {0, 1, 2, 3});
}
