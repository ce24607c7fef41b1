// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations, and counters, of ranks that share a device: what tests/comm demands of thread ranks.
#include <doctest/doctest.h>

#include "../comm/asynchronous.hpp"
#include "../comm/counted.hpp"
#include "../comm/watchdog.hpp"
#include "shared_device_ranks.hpp"

using namespace heddle::testing;
using ranks_here = shared_device_ranks;

namespace {
constexpr std::chrono::seconds patience{120};
}

TEST_CASE("shared device: asynchronous collectives give what the blocking ones give") {
  watchdog const guard(patience);
  for (std::size_t ranks = 1; ranks <= 5; ++ranks)
    on_shared_devices([&] { check_asynchronous_collectives<ranks_here>(ranks, 1003); });
}
TEST_CASE("shared device: an exchange and a broadcast run beside other work") {
  watchdog const guard(patience);
  on_shared_devices([] { check_asynchronous_exchange<ranks_here>(); });
}
TEST_CASE("shared device: every rank exchanges with both neighbours of a ring at once") {
  watchdog const guard(patience);
  on_shared_devices([] { check_ring<ranks_here>(); });
}
TEST_CASE("shared device: several posted transfers of one pair meet in order") {
  watchdog const guard(patience);
  on_shared_devices([] { check_posted_transfers<ranks_here>(); });
}
TEST_CASE("shared device: an asynchronous operation is not done before its peer has called") {
  watchdog const guard(patience);
  on_shared_devices([] { check_done<ranks_here>(); });
}
TEST_CASE("shared device: groups beside each other") {
  watchdog const guard(patience);
  on_shared_devices([] { check_groups_beside_each_other<ranks_here>(); });
}
TEST_CASE("shared device: handles wait when they end") {
  watchdog const guard(patience);
  on_shared_devices([] { check_handles_wait_at_their_end<ranks_here>(); });
}
TEST_CASE("shared device: counted elements equal the traffic functions") {
  watchdog const guard(patience);
  for (std::size_t ranks = 1; ranks <= 8; ++ranks)
    on_shared_devices([&] { check_counters<ranks_here>(ranks, {0, 1, 5, 8, 100}); }, {ranks % 6});
  on_shared_devices([] { check_counters_of_groups<ranks_here>(); }, {0, 3});
}
