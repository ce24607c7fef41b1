// SPDX-License-Identifier: Apache-2.0
// A rank that throws, stalls or disagrees ends the others, over NCCL too, and nobody waits for the device for ever.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../comm/failing.hpp"
#include "../comm/watchdog.hpp"
#include "nccl_ranks.hpp"

namespace {
using namespace heddle::testing;
using heddle::comm::call_mismatch;
using heddle::comm::operation_timeout;
using heddle::comm::rank_failed;
using heddle::cuda::nccl_communicator;
using std::chrono::seconds;
using floats = array<nccl_ranks, float>;
}  // namespace

TEST_CASE("nccl: a rank that throws ends ranks in every kind of call, with its text (HT-1)") {
  watchdog const guard(seconds(60));
  over_nccl(
      [] {
        auto const start = steady_clock::now();
        auto const texts = seen<nccl_ranks, rank_failed>(4, [](nccl_communicator& world) {
          floats const data(4), other(4);
          world.barrier();
          if (world.rank() == 0) world.all_reduce(data.span());
          if (world.rank() == 1) throw std::runtime_error("backward of micro-batch 2 met a NaN");
          if (world.rank() == 2) world.receive(data.span(), 1);
          if (world.rank() == 3) {
            heddle::cuda::nccl_handle one = world.receive_async(data.span(), 1);
            heddle::cuda::nccl_handle two = world.all_reduce_async(other.span());
            two.wait();
          }
          (void)data.values();  // waits for the device, which comes free
          world.barrier();
        });
        CHECK(since(start) < milliseconds(5000));
        CHECK(texts[1] == "backward of micro-batch 2 met a NaN");
        for (std::size_t const r : {0U, 2U, 3U, 4U})
          CHECK(texts[r] == "rank 1 failed: backward of micro-batch 2 met a NaN");
        std::atomic<int> sum{0};  // a fresh run works afterwards
        nccl_ranks::run(4, [&](nccl_communicator& world) {
          array<nccl_ranks, int> const one(1, 1);
          world.all_reduce(one.span());
          sum += one.first();
        });
        CHECK(sum == 16);
      },
      {0, 2});
}
TEST_CASE("nccl: a failure reaches other groups, later calls, and things that are no std::exception") {
  watchdog const guard(seconds(60));
  over_nccl([] { check_failure_reaches_all<nccl_ranks>(); }, {0, 2});
}
TEST_CASE("nccl: nothing is communicated and nothing blocks while an exception unwinds (HT-2)") {
  watchdog const guard(seconds(60));
  over_nccl([] { check_unwinding<nccl_ranks>(); }, {0, 2});
}
TEST_CASE("nccl: a rank that swallows the exception cannot go on after an abandoned operation (HT-2)") {
  watchdog const guard(seconds(60));
  over_nccl([] { check_abandoned_operation<nccl_ranks>(); }, {0, 2});
}
TEST_CASE("nccl: a communicator that outlives its run refuses calls") {
  watchdog const guard(seconds(60));
  over_nccl([] { check_communicator_that_outlives_its_run<nccl_ranks>(); }, {0, 2});
}

TEST_CASE("nccl: what a missing peer leaves waiting on the device is aborted at the time limit (HT-3)") {
  watchdog const guard(seconds(60));
  over_nccl(
      [] {
        auto const start = steady_clock::now();
        auto const texts =
            seen<nccl_ranks, operation_timeout>(2,
                                                [](nccl_communicator& world) {
                                                  nccl_communicator data = world.split(0, world.rank(), "dp");
                                                  floats const gradient(8, 1.0F);
                                                  data.all_reduce(gradient.span());
                                                  if (world.rank() == 1) {
                                                    while (true) {  // busy elsewhere, until it is told
                                                      std::this_thread::sleep_for(milliseconds(20));
                                                      (void)world.send_async(gradient.span().first(0), 0);
                                                    }
                                                  }
                                                  data.all_reduce(gradient.span());
                                                  (void)gradient.values();  // waits for the device
                                                  world.barrier();
                                                },
                                                {.timeout = milliseconds(400)});
        check_all(texts, {"rank 0: all_reduce of 8 float32 (sum) on \"dp\" (call 2) has not ended after 400 ms",
                          "another rank has not made this call, or is still busy"});
        CHECK(since(start) < milliseconds(8000));
      },
      {0, 2});
}

TEST_CASE("nccl: a pair of which one never comes is a timeout") {
  watchdog const guard(seconds(60));
  auto const texts = seen<nccl_ranks, operation_timeout>(2,
                                                         [](nccl_communicator& world) {
                                                           floats const data(3);
                                                           if (world.rank() == 0) return world.receive(data.span(), 1);
                                                           std::this_thread::sleep_for(milliseconds(1500));
                                                           world.barrier();
                                                         },
                                                         {.timeout = milliseconds(300)});
  check_all(texts, {"rank 0: receive of 3 float32 from rank 1 on \"world\" (call 1) has not met the other ranks after "
                    "300 ms"});
}

TEST_CASE("nccl: errors that NCCL finds later end the run, with the rank and its operation") {
  watchdog const guard(seconds(60));
  over_nccl(
      [] {
        auto const texts = seen<nccl_ranks, rank_failed>(2, [](nccl_communicator& world) {
          floats const data(8);
          world.all_reduce(data.span());
          (void)data.values();
          if (world.rank() == 1) {
            auto const pending = world.receive_async(data.span(), 0);
            std::this_thread::sleep_for(milliseconds(50));
            heddle::emulation::inject_nccl_error(1, ncclRemoteError);
            for (;;) world.barrier();
          }
          for (;;) world.barrier();
        });
        check_all(texts, {"rank 1 failed: ", "ncclRemoteError (6), remote process exited",
                          "another process is gone, or the network between"});
      },
      {0, 2});
}

TEST_CASE("nccl: an error that NCCL finds names the operation that runs") {
  watchdog const guard(seconds(60));
  over_nccl(
      [] {
        auto const texts = seen<nccl_ranks, rank_failed>(2, [](nccl_communicator& world) {
          floats const data(8), other(3);
          world.all_reduce(data.span());
          (void)data.values();
          if (world.rank() == 0) world.receive(other.span(), 1);  // which never comes
          auto pending = world.all_reduce_async(data.span());
          pending.wait();
          std::this_thread::sleep_for(milliseconds(50));
          heddle::emulation::inject_nccl_error(1, ncclRemoteError);
          (void)data.values();
          for (;;) world.barrier();
        });
        check_all(texts, {"rank 1 failed: all_reduce of 8 float32 (sum) on \"world\" (call 2): ncclRemoteError (6)"});
      },
      {0, 2});
}

TEST_CASE("nccl: labels that differ, and numbers that NCCL has not") {
  watchdog const guard(seconds(60));
  check_all(seen<nccl_ranks, call_mismatch>(2,
                                            [](nccl_communicator& world) {
                                              (void)world.split(0, 0, world.rank() == 0 ? "dp" : "tp");
                                              world.barrier();
                                            }),
            {"calls split named \"", "by another name; give one label"});
  check_all(seen<nccl_ranks, rank_failed>(2,
                                          [](nccl_communicator& world) {
                                            world.barrier();
                                            (void)world.split(std::size_t{1} << 31, 0, "dp");
                                          }),
            {"split on \"world\": color is 2147483648; NCCL numbers up to 2147483647"});
}

TEST_CASE("nccl: arguments that no rank may pass") {
  watchdog const guard(seconds(60));
  auto const failing = [](auto const& body, std::string const& part) {
    check_all(seen<nccl_ranks, rank_failed>(2,
                                            [&](nccl_communicator& world) {
                                              floats const data(8);
                                              world.barrier();
                                              if (world.rank() == 0) body(world, data);
                                              for (;;) world.barrier();
                                            }),
              {"rank 0 failed: ", part});
  };
  failing([](auto& world, auto& data) { world.broadcast(data.span(), 2); },
          "root is 2, but the communicator has 2 ranks");
  failing([](auto& world, auto& data) { world.send(data.span(), 0); }, "rank 0 cannot exchange with itself");
  failing([](auto& world, auto& data) { world.all_gather(data.read().first(3), data.span()); },
          "in has 3 elements, out has 8; the chunk of rank 0 of 2 has 4");
  failing([](auto& world, auto& data) { world.all_to_all(data.read(), data.span()); }, "in and out overlap");
}

TEST_CASE("nccl: devices that are not there, or not each rank's own") {
  heddle::emulation::session const here({.devices = 2});
  auto const text = [](std::vector<int> const& devices) {
    try {
      heddle::cuda::run_nccl_threads(devices, [](nccl_communicator&) {});
    } catch (heddle::error const& one) {
      return std::string(one.what());
    }
    return std::string();
  };
  CHECK(has(text({}), "no device is named"));
  CHECK(has(text({0, 2}), "device 2, but this process sees 2 devices"));
  CHECK(has(text({1, 1}), "device 1 is named twice; give each rank one of its own"));
  CHECK(text({0, 1}) == "");
}
