// SPDX-License-Identifier: Apache-2.0
// The ranks of a plan on one device.
#include <doctest/doctest.h>

#include <atomic>
#include <heddle/cuda/run.hpp>
#include <heddle/layout/names.hpp>
#include <vector>

#include "../comm/failing.hpp"
#include "../comm/watchdog.hpp"
#include "session.hpp"

namespace {

namespace hd = heddle;
using hd::testing::watchdog;

struct two_by_two : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>> {};

}  // namespace

TEST_CASE("shared device: the ranks of a plan, each with its groups and an execution") {
  watchdog const guard(std::chrono::seconds(60));
  hd::emulation::in_every_mode([] {
    std::atomic<int> right{0};
    // [run]
    hd::run<two_by_two>(hd::shared_device, [&](auto& rank) {
      using memory = hd::cuda::device_memory;
      std::vector<float> values(1000, static_cast<float>(rank.rank()));
      memory::arena<float> const gradient(values.size());
      memory::from_host(values.data(), gradient.data(), values.size());

      auto& data = rank.template along<hd::dp>();  // ranks 0 2 | 1 3
      auto reduced = data.all_reduce_async(std::span(gradient.data(), gradient.size()));
      // what does not use `gradient`
      reduced.wait();  // the compute stream waits, not the host

      memory::to_host(gradient.data(), values.data(), values.size());
      if (values[0] == (rank.rank() % 2 == 0 ? 2.0f : 4.0f)) ++right;
    });
    // [/run]
    CHECK(right == 4);
  });
}

TEST_CASE("shared device: options of a plan's run, and a device that is not there") {
  watchdog const guard(std::chrono::seconds(60));
  hd::emulation::session const here({.devices = 2});
  hd::run<two_by_two>(hd::shared_device.on(1), [](auto& rank) {
    CHECK(hd::cuda::current_device() == 1);
    rank.world().barrier();
  });
  CHECK_THROWS_AS(hd::run<two_by_two>(hd::shared_device, {.timeout = std::chrono::milliseconds(100)},
                                      [](auto& rank) {
                                        if (rank.rank() != 0) rank.world().barrier();
                                        if (rank.rank() == 0)
                                          std::this_thread::sleep_for(std::chrono::milliseconds(300));
                                        rank.world().barrier();
                                      }),
                  hd::comm::communication_error);
  std::string const text =
      hd::emulation::failure_of([] { hd::run<two_by_two>(hd::shared_device.on(2), [](auto&) {}); });
  CHECK(hd::testing::has(text, "failed: cudaSetDevice(2)"));
}
