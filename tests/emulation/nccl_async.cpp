// SPDX-License-Identifier: Apache-2.0
// Asynchronous operations and counters of ranks over NCCL.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../comm/asynchronous.hpp"
#include "../comm/counted.hpp"
#include "../comm/watchdog.hpp"
#include "nccl_ranks.hpp"

namespace {
using namespace heddle::testing;
constexpr std::chrono::seconds patience{120};
}  // namespace

TEST_CASE("nccl: asynchronous collectives give what the blocking ones give") {
  watchdog const guard(patience);
  over_nccl([] { check_asynchronous_collectives<nccl_ranks>(4, 2001); });
}
TEST_CASE("nccl: an exchange and a broadcast run beside other work") {
  watchdog const guard(patience);
  over_nccl([] { check_asynchronous_exchange<nccl_ranks>(); });
}
TEST_CASE("nccl: every rank exchanges with both neighbours of a ring at once") {
  watchdog const guard(patience);
  over_nccl([] { check_ring<nccl_ranks>(); });
}
TEST_CASE("nccl: several posted transfers of one pair meet in order") {
  watchdog const guard(patience);
  over_nccl([] { check_posted_transfers<nccl_ranks>(); });
}
TEST_CASE("nccl: an asynchronous operation is not done before its peer has called") {
  watchdog const guard(patience);
  over_nccl([] {
    std::atomic<int> wrong{0};
    std::atomic<bool> may_call{false};
    nccl_ranks::run(2, [&](nccl_ranks::communicator& world) {
      array<nccl_ranks, int> const data(8, 1), other(8, 5);
      if (world.rank() == 1) {
        while (!may_call) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return world.all_reduce(data.span());
      }
      nccl_ranks::handle pending = world.all_reduce_async(data.span());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      if (pending.done() || other.first() != 5) ++wrong;  // the compute stream is free meanwhile
      may_call = true;
      pending.wait();
      if (!pending.done() || data.first() != 2) ++wrong;
      nccl_ranks::handle moved = std::move(pending);
      moved.wait();
      if (!moved.done() || !nccl_ranks::handle{}.done()) ++wrong;
    });
    CHECK(wrong == 0);
  });
}
TEST_CASE("nccl: groups beside each other") {
  watchdog const guard(patience);
  over_nccl([] { check_groups_beside_each_other<nccl_ranks>(); });
}
TEST_CASE("nccl: handles wait when they end") {
  watchdog const guard(patience);
  over_nccl([] { check_handles_wait_at_their_end<nccl_ranks>(); });
}
TEST_CASE("nccl: counted elements equal the traffic functions") {
  watchdog const guard(patience);
  over_nccl(
      [] {
        check_counters<nccl_ranks>(4, {0, 1, 4, 10, 1023});
        check_counters_of_groups<nccl_ranks>();
      },
      {0, 3});
}
