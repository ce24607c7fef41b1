// SPDX-License-Identifier: Apache-2.0
// Who waits sleeps: ranks share a few cores, so one that spins would take them from the rank that all wait for.
#include <doctest/doctest.h>

#include <time.h>

#include <array>
#include <chrono>
#include <span>
#include <thread>

#include <heddle/comm/threads.hpp>
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;

namespace thread_waiting_test {
namespace {

constexpr std::size_t ranks = 6;
constexpr std::chrono::milliseconds asleep(400);

/// Processor time of all threads of this process. Other load on the machine does not count.
std::chrono::nanoseconds processor_time() {
  timespec now{};
  REQUIRE(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

/// All ranks but the last call `wait` at once; the last sleeps first. What the process computed meanwhile: one rank
/// that spins would take a core for as long, or what others leave of it.
template <class Wait>
void check_waits_asleep(Wait wait) {
  std::chrono::nanoseconds spent{};
  run_threads(ranks, [&](thread_communicator& world) {
    world.all_reduce_async(std::span<float>()).wait();  // helper threads are there
    world.barrier();
    if (world.rank() + 1 == ranks) {
      std::chrono::nanoseconds const before = processor_time();
      std::this_thread::sleep_for(asleep);
      spent = processor_time() - before;
    }
    wait(world);
  });
  CHECK(spent < asleep / 8);
}

}  // namespace

TEST_CASE("ranks that wait in a collective sleep") {
  watchdog const guard(std::chrono::seconds(60));
  check_waits_asleep([](thread_communicator& world) { world.barrier(); });
  check_waits_asleep([](thread_communicator& world) {
    std::array<float, 4> x{};
    world.all_reduce(std::span<float>(x));
  });
}
TEST_CASE("ranks that wait for a message sleep") {
  watchdog const guard(std::chrono::seconds(60));
  check_waits_asleep([](thread_communicator& world) {
    std::array<float, 1> x{};
    if (world.rank() + 1 < ranks) return world.receive(std::span<float>(x), ranks - 1);
    for (std::size_t to = 0; to + 1 < ranks; ++to) world.send(std::span<float>(x), to);
  });
}
TEST_CASE("ranks that wait for a handle sleep, and so do the helpers that work for them") {
  watchdog const guard(std::chrono::seconds(60));
  check_waits_asleep([](thread_communicator& world) {
    std::array<float, 4> x{};
    world.all_reduce_async(std::span<float>(x)).wait();
  });
}

}  // namespace thread_waiting_test
