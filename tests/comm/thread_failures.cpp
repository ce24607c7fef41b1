// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "failing.hpp"
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::thread_ranks;
using heddle::testing::watchdog;

namespace thread_failures_test {

TEST_CASE("a rank that throws ends ranks in every kind of call, with its text (HT-1)") {
  watchdog const guard;
  heddle::testing::check_a_rank_that_throws<thread_ranks>();
}

TEST_CASE("a failure reaches other groups, later calls, and things that are no std::exception") {
  watchdog const guard;
  heddle::testing::check_failure_reaches_all<thread_ranks>();
}

TEST_CASE("nothing is communicated and nothing blocks while an exception unwinds (HT-2)") {
  watchdog const guard;
  heddle::testing::check_unwinding<thread_ranks>();
}

TEST_CASE("a rank that swallows the exception cannot go on after an abandoned operation (HT-2)") {
  watchdog const guard;
  heddle::testing::check_abandoned_operation<thread_ranks>();
}

TEST_CASE("a missing peer is a timeout for the caller, and every later call throws at once (HT-3)") {
  watchdog const guard;
  heddle::testing::check_missing_peer<thread_ranks>();
}

TEST_CASE("a receive without a send, and an asynchronous operation without a peer, time out too (HT-3)") {
  watchdog const guard;
  heddle::testing::check_other_timeouts<thread_ranks>();
}

TEST_CASE("ranks with unlike numbers of calls are told both numbers (UN-2)") {
  watchdog const guard;
  heddle::testing::check_unlike_numbers_of_calls<thread_ranks>();
}

TEST_CASE("a transfer with a rank that has returned is refused") {
  watchdog const guard;
  heddle::testing::check_transfer_with_one_that_returned<thread_ranks>();
}

TEST_CASE("the same arguments are required of all ranks, of each rank's own too") {
  watchdog const guard;
  heddle::testing::check_arguments<thread_ranks>();
}

TEST_CASE("a communicator that outlives its run refuses calls") {
  watchdog const guard;
  heddle::testing::check_communicator_that_outlives_its_run<thread_ranks>();
}

TEST_CASE("a run needs a rank and a positive timeout") {
  auto const nothing = [](thread_communicator&) {};
  CHECK_THROWS_WITH_AS(run_threads(0, nothing), "run_threads: ranks is 0; pass at least 1", heddle::error);
  CHECK_THROWS_AS(run_threads(1, nothing, {.timeout = std::chrono::milliseconds(0)}), heddle::error);
}

#if defined(__unix__)
TEST_CASE("what ranks have printed arrives, though nobody catches and the program is aborted") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(stdout);
  pid_t const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test program's own handler would report a crash
    dup2(ends[1], STDOUT_FILENO);
    std::setvbuf(stdout, nullptr, _IOFBF, 4096);
    [&]() noexcept {
      run_threads(2, [](thread_communicator& world) {
        if (world.rank() == 0) std::printf("printed before");
        world.barrier();
        if (world.rank() == 1) throw std::runtime_error("broken");
      });
    }();
    std::_Exit(0);
  }
  close(ends[1]);
  std::string said;
  char some[64];
  for (ssize_t got = 0; (got = read(ends[0], some, sizeof some)) > 0;) said.append(some, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(said == "printed before");
}
#endif

}  // namespace thread_failures_test
