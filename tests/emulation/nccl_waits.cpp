// SPDX-License-Identifier: Apache-2.0
// Every wait of streams that ranks over NCCL make is needed: each is left out in turn, and its lack is found.
#include <doctest/doctest.h>

#include <barrier>
#include <heddle/backend/cuda/device_memory.hpp>
#include <string>

#include "../comm/watchdog.hpp"
#include "nccl_ranks.hpp"

namespace {

using namespace heddle;
using testing::nccl_ranks;
using memory = cuda::device_memory;

/// A collective of NCCL's, one that is joined, and a transfer, each between fills of its buffer; what is found.
std::string found(std::size_t left_out, std::size_t* waits = nullptr) {
  std::string text;
  emulation::reset_devices({.devices = 2, .waits_before_one_is_dropped = left_out});
  emulation::reset_nccl();
  try {
    std::barrier both(2);
    cuda::run_nccl_threads({0, 1}, [&](nccl_ranks::communicator& world) {
      cuda::device_arena<float> const data(8);
      std::span<float> const all(data.data(), 8);
      world.rank() == 0 ? world.send(all, 1) : world.receive(all, 0);  // connects the pair
      both.arrive_and_wait();
      memory::clear(data.data(), 8);
      world.all_reduce(all);
      memory::clear(data.data(), 8);
      world.all_reduce(all, comm::reduction::max);
      memory::clear(data.data(), 8);
      world.rank() == 0 ? world.send(all, 1) : world.receive(all, 0);
      memory::clear(data.data(), 8);
    });
  } catch (heddle::error const& one) {
    text = one.what();
  }
  if (waits != nullptr) *waits = emulation::stream_waits();
  text += emulation::take_fault();
  emulation::reset_nccl();
  emulation::reset_devices();
  return text;
}

}  // namespace

TEST_CASE("nccl: each wait left out is a race that is found") {
  testing::watchdog const guard(std::chrono::seconds(100));
  std::size_t waits = 0;
  REQUIRE(found(static_cast<std::size_t>(-1), &waits) == "");
  CHECK(waits == 16);  // two for each of four calls of two ranks, of which the first connects
  for (std::size_t one = 4; one < waits; ++one) {
    CAPTURE(one);
    // Where the watching thread has asked for the end of the call before the next work is given, there is no race.
    bool seen = false;
    for (int tries = 0; tries < 10 && !seen; ++tries) seen = emulation::has(found(one), "race: ");
    CHECK(seen);
  }
}
