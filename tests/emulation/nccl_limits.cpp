// SPDX-License-Identifier: Apache-2.0
// How calls and runs over NCCL end: what waits is ended together, limits count what they say, and nothing outlives.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "../comm/failing.hpp"
#include "../comm/watchdog.hpp"
#include "nccl_ranks.hpp"

namespace {
using namespace heddle::testing;
using heddle::comm::operation_timeout;
using heddle::cuda::nccl_communicator;
using heddle::cuda::nccl_handle;
using std::chrono::seconds;
using floats = array<nccl_ranks, float>;

/// Until the run has failed, without a call that others would meet.
[[noreturn]] void stay_away(nccl_communicator& world, floats const& data) {
  for (;;) {
    std::this_thread::sleep_for(milliseconds(10));
    (void)world.send_async(data.span().first(0), 1 - world.rank());
  }
}
}  // namespace

TEST_CASE("nccl: communicators of which each waits on the device are aborted together") {
  watchdog const guard(seconds(60));
  over_nccl(
      [] {
        auto const start = steady_clock::now();
        auto const texts = seen<nccl_ranks, operation_timeout>(2,
                                                               [](nccl_communicator& world) {
                                                                 nccl_communicator data =
                                                                     world.split(0, world.rank(), "dp");
                                                                 floats const one(8), two(8);
                                                                 world.all_reduce(one.span());
                                                                 data.all_reduce(two.span());
                                                                 if (world.rank() == 1) stay_away(world, one);
                                                                 nccl_handle a = world.all_reduce_async(one.span());
                                                                 nccl_handle b = data.all_reduce_async(two.span());
                                                                 a.wait();
                                                                 b.wait();
                                                                 for (;;) world.barrier();
                                                               },
                                                               {.timeout = milliseconds(300)});
        check_all(texts, {"rank 0: all_reduce of 8 float32 (sum) on \"", "has not ended after 300 ms"});
        CHECK(since(start) < milliseconds(8000));
      },
      {0, 2});
}

TEST_CASE("nccl: a split waits until nothing of its group is under way") {
  watchdog const guard(seconds(60));
  over_nccl([] {
    std::atomic<int> wrong{0};
    nccl_ranks::run(2, [&](nccl_communicator& world) {
      floats const data(8, 1.0F), other(8, 1.0F);
      world.barrier();
      if (world.rank() == 1) std::this_thread::sleep_for(milliseconds(20));
      nccl_handle pending = world.all_reduce_async(data.span());
      nccl_communicator part = world.split(0, 1 - world.rank(), "dp");
      part.all_reduce(other.span());
      pending.wait();
      if (data.first() != 2.0F || other.first() != 2.0F || part.rank() != 1 - world.rank()) ++wrong;
    });
    CHECK(wrong == 0);
  });
}

TEST_CASE("nccl: a subset that nobody uses holds up no end of the run") {
  watchdog const guard(seconds(20));
  over_nccl(
      [] {
        nccl_ranks::run(3, [](nccl_communicator& world) {
          std::array<std::size_t, 2> const pair{0, 1};
          world.barrier();
          if (world.rank() == 0) std::this_thread::sleep_for(milliseconds(100));  // the others have returned
          if (world.rank() != 2) (void)world.subset(pair, "unused");
          if (world.rank() == 0) std::this_thread::sleep_for(milliseconds(50));
        });
      },
      {0, 2});
}

TEST_CASE("nccl: a rank that does not return is a timeout of those that have") {
  watchdog const guard(seconds(20));
  auto const text = [](milliseconds busy) {
    try {
      nccl_ranks::run(2,
                      [&](nccl_communicator& world) {
                        world.barrier();
                        if (world.rank() == 1) std::this_thread::sleep_for(busy);
                      },
                      {.timeout = milliseconds(400)});
    } catch (operation_timeout const& one) {
      return std::string(one.what());
    }
    return std::string();
  };
  CHECK(text(milliseconds(50)) == "");
  CHECK(has(text(milliseconds(1500)),
            "rank 0: communicator 'world' has not ended after 400 ms; another rank has not returned"));
}

TEST_CASE("nccl: the name of a group is told after the group is gone") {
  watchdog const guard(seconds(60));
  std::string const name = "the replicas of this stage of the pipeline";
  auto const texts = seen<nccl_ranks, operation_timeout>(2,
                                                         [&](nccl_communicator& world) {
                                                           floats const data(8);
                                                           {
                                                             auto part = world.split(0, world.rank(), name);
                                                             part.all_reduce(data.span());
                                                             if (world.rank() == 0) part.all_reduce(data.span());
                                                           }
                                                           stay_away(world, data);
                                                         },
                                                         {.timeout = milliseconds(300)});
  check_all(texts, {"all_reduce of 8 float32 (sum) on \"" + name + "\" (call 2) has not ended after 300 ms"});
}

TEST_CASE("nccl: the limit is each operation's own, not of those before it") {
  watchdog const guard(seconds(60));
  nccl_ranks::options() = {};
  std::atomic<int> wrong{0};
  nccl_ranks::run(2,
                  [&](nccl_communicator& world) {
                    std::vector<floats> data;
                    for (int i = 0; i < 5; ++i) data.emplace_back(4, static_cast<float>(i));
                    std::vector<nccl_handle> all;
                    for (floats const& one : data) {
                      if (world.rank() == 1) {
                        world.send(one.span(), 0);
                        std::this_thread::sleep_for(milliseconds(250));
                      } else {
                        all.push_back(world.receive_async(one.span(), 1));
                      }
                    }
                    for (nccl_handle const& one : all)
                      while (!one.done()) std::this_thread::sleep_for(milliseconds(5));
                    for (nccl_handle& one : all) one.wait();
                    if (data[4].first() != 4.0F) ++wrong;
                  },
                  {.timeout = milliseconds(600)});
  CHECK(wrong == 0);
}

TEST_CASE("nccl: a handle that outlives its run is done") {
  watchdog const guard(seconds(60));
  std::array<nccl_handle, 2> late, dropped;
  nccl_ranks::run(2, [&](nccl_communicator& world) {
    floats const data(8), other(8);
    late[world.rank()] = world.all_reduce_async(data.span());
    dropped[world.rank()] = world.all_reduce_async(other.span());
    while (!dropped[world.rank()].done()) std::this_thread::sleep_for(milliseconds(1));
  });
  for (nccl_handle& one : late) {
    CHECK(one.done());
    one.wait();
    CHECK(one.done());
  }
}
