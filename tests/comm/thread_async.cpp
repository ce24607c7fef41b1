// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "asynchronous.hpp"
#include "watchdog.hpp"

using heddle::testing::thread_ranks;
using heddle::testing::watchdog;

namespace thread_async_test {

TEST_CASE("asynchronous collectives give what the blocking ones give, also out of order and beside them") {
  watchdog const guard;
  for (std::size_t ranks = 1; ranks <= 5; ++ranks)
    heddle::testing::check_asynchronous_collectives<thread_ranks>(ranks, 30000);
}

TEST_CASE("an exchange and a broadcast run beside other work") {
  watchdog const guard;
  heddle::testing::check_asynchronous_exchange<thread_ranks>();
}

TEST_CASE("every rank exchanges with both neighbours of a ring at once") {
  watchdog const guard;
  heddle::testing::check_ring<thread_ranks>();
}

TEST_CASE("several posted transfers of one pair meet in order") {
  watchdog const guard;
  heddle::testing::check_posted_transfers<thread_ranks>();
}

TEST_CASE("an asynchronous operation is not done before its peer has called, and the caller is free meanwhile") {
  watchdog const guard;
  heddle::testing::check_done<thread_ranks>();
}

TEST_CASE("a transfer needs no helper, a collective of one group does not disturb another") {
  watchdog const guard;
  heddle::testing::check_groups_beside_each_other<thread_ranks>();
}

TEST_CASE("a handle that nobody waited for waits when it ends, and so does an overwritten one") {
  watchdog const guard;
  heddle::testing::check_handles_wait_at_their_end<thread_ranks>();
}

}  // namespace thread_async_test
