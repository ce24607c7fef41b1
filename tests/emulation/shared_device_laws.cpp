// SPDX-License-Identifier: Apache-2.0
// Ranks that share a device against thread ranks, bit for bit; and what is caught: every wait that streams would need,
// calls that do not belong together, buffers that are used too early, and errors of the device.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstring>
#include <heddle/backend/cuda/graph.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/comm/delaying.hpp>
#include <heddle/comm/recording.hpp>
#include <random>
#include <type_traits>

#include "../comm/failing.hpp"
#include "../comm/watchdog.hpp"
#include "shared_device_ranks.hpp"
#include "test_kernels.hpp"

using namespace heddle::testing;
using heddle::cuda::writes;
using ranks_here = shared_device_ranks;

namespace {

constexpr std::chrono::seconds patience{120};
namespace hd = heddle;
using communicator = hd::cuda::shared_device_communicator;

static_assert(hd::comm::Communicator<communicator> && hd::comm::CommunicationHandle<hd::cuda::shared_device_handle>);
static_assert(std::is_same_v<hd::memory_of<communicator>, hd::cuda::device_memory>);
static_assert(std::is_same_v<hd::memory_of<hd::comm::recording<communicator>>, hd::cuda::device_memory>);
static_assert(std::is_same_v<hd::memory_of<hd::comm::delaying<communicator>>, hd::cuda::device_memory>);

/// Numbers of very different sizes, whose sum tells in which order it was made.
template <class T>
std::vector<T> uneven_values(std::size_t rank, std::size_t count) {
  std::mt19937_64 draw(rank * 77 + count);
  std::vector<T> all(count);
  for (T& one : all)
    one = static_cast<T>(
        std::ldexp(static_cast<double>(static_cast<std::int64_t>(draw())), static_cast<int>(draw() % 40) - 80));
  return all;
}

/// Every rank's results of all reductions, one behind the other.
template <class Ranks, class T>
std::vector<std::vector<T>> reduced(std::size_t ranks, std::vector<std::size_t> const& counts) {
  std::vector<std::vector<T>> results(ranks);
  Ranks::run(ranks, [&](typename Ranks::communicator& world) {
    std::vector<T>& mine = results[world.rank()];
    auto const keep = [&](array<Ranks, T> const& one) {
      std::vector<T> const got = one.values();
      mine.insert(mine.end(), got.begin(), got.end());
    };
    for (std::size_t const count : counts) {
      array<Ranks, T> const data(uneven_values<T>(world.rank(), count)), in(uneven_values<T>(world.rank() + 9, count)),
          out(hd::comm::chunk_count(count, ranks, world.rank()));
      world.all_reduce(data.span());
      keep(data);
      world.reduce_scatter(in.read(), out.span());
      keep(out);
      typename Ranks::handle later = world.all_reduce_async(in.span());
      later.wait();
      keep(in);
    }
    array<Ranks, double> const loss(1, 1.0 / static_cast<double>(3 + world.rank()));  // a sum of losses
    world.all_reduce(loss.span());
    mine.push_back(static_cast<T>(loss.first()));
  });
  return results;
}
template <class T>
void check_bits(std::size_t ranks) {
  std::vector<std::size_t> const counts{1, 5, 64, 1001};
  auto const there = reduced<thread_ranks, T>(ranks, counts);
  auto const here = reduced<ranks_here, T>(ranks, counts);
  for (std::size_t r = 0; r < ranks; ++r) {
    REQUIRE(here[r].size() == there[r].size());
    CHECK(std::memcmp(here[r].data(), there[r].data(), here[r].size() * sizeof(T)) == 0);
  }
}

/// The rank's next work reads and writes all of an array.
void touch(array<ranks_here, float> const& data) {
  auto const n = static_cast<unsigned>(data.span().size());
  hd::cuda::launch<hd::emulation::scale<float, 32>>({.grid = dim3((n + 31) / 32), .block = dim3(32)},
                                                    hd::cuda::execution::current().compute(),
                                                    writes(data.span().data(), n), 1.0F, 1.0F, static_cast<int>(n));
}

/// Each operation, between work of all ranks on all that it touches, so that no wait of a stream is spared. The host
/// waits for nothing.
void every_operation(communicator& world) {
  std::size_t const n = world.size(), r = world.rank();
  array<ranks_here, float> const whole(4 * n), other(4 * n), part(4);
  world.barrier();  // all arrays are there
  auto const between = [&](auto const& call) {
    touch(whole);
    touch(other);
    touch(part);
    call();
  };
  between([&] { world.all_reduce(whole.span()); });
  between([&] { world.reduce_scatter(whole.read(), part.span()); });
  between([&] { world.all_gather(part.read(), whole.span()); });
  between([&] { world.all_to_all(whole.read(), other.span()); });
  between([&] { world.broadcast(whole.span(), n - 1); });
  between([&] {
    if (r < 2) r == 0 ? world.send(whole.span(), 1) : world.receive(whole.span(), 0);
  });
  between([&] {
    hd::cuda::shared_device_handle one = world.all_reduce_async(whole.span());
    touch(part);
    touch(other);
    hd::cuda::shared_device_handle two = world.all_gather_async(part.read(), other.span());
    one.wait();
    touch(whole);
    two.wait();
  });
  between([&] {
    if (r > 1) return;
    hd::cuda::shared_device_handle const transfer =
        r == 0 ? world.send_async(part.span(), 1) : world.receive_async(part.span(), 0);
  });
  between([] {});
  world.barrier();  // freeing waits for all of the device, and would be an order of its own
}
constexpr std::size_t waits_of_a_barrier = 4;

/// `body` on two ranks of a device that works as `options` say. What ended the run, and what the device found.
template <class Body>
std::array<std::string, 2> failure_of_run(hd::emulation::device_options const& options, Body body) {
  hd::emulation::session const here(options);
  std::array<std::string, 2> texts;
  try {
    hd::cuda::run_shared_device(2, 0, body, {.timeout = milliseconds(20000)});
  } catch (hd::error const& error) {
    texts[0] = error.what();
  }
  texts[1] = hd::emulation::take_fault();
  return texts;
}

}  // namespace

TEST_CASE("shared device: sums have the bits of thread ranks, in float and double, whole and scattered") {
  watchdog const guard(patience);
  for (std::size_t ranks = 1; ranks <= 8; ++ranks)
    on_shared_devices(
        [&] {
          check_bits<float>(ranks);
          check_bits<double>(ranks);
        },
        {ranks % 2, 2 + ranks % 4});
}

TEST_CASE("shared device: every wait of a stream for an event is needed, and none is missing") {
  watchdog const guard(patience);
  std::size_t waits = 0;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    hd::emulation::session const here(
        {.mode = seed < 2 ? hd::emulation::execution::eager : hd::emulation::execution::delayed,
         .seed = seed,
         .only_named = seed % 2 == 1});
    hd::cuda::run_shared_device(2, 0, every_operation);
    if (seed > 0) CHECK(hd::emulation::stream_waits() == waits);
    waits = hd::emulation::stream_waits();
  }
  REQUIRE(waits > 40);
  // Those of the first barrier order nothing yet, and those of the last one nothing more.
  for (std::size_t left_out = waits_of_a_barrier; left_out + waits_of_a_barrier < waits; ++left_out) {
    CAPTURE(left_out);
    auto const mode = left_out % 2 == 0 ? hd::emulation::execution::eager : hd::emulation::execution::delayed;
    std::array<std::string, 2> const texts =
        failure_of_run({.mode = mode, .seed = left_out, .waits_before_one_is_dropped = left_out}, every_operation);
    CHECK(has(texts[0], "race: "));
    CHECK(has(texts[1], "race: "));
  }
}

TEST_CASE("shared device: a buffer that is used before its operation was waited for is a race") {
  watchdog const guard(patience);
  for (bool const waits : {true, false}) {
    auto const texts = failure_of_run({.mode = hd::emulation::execution::delayed}, [&](communicator& world) {
      array<ranks_here, float> const data(64, 1.0F);
      world.barrier();
      hd::cuda::shared_device_handle reduced = world.all_reduce_async(data.span());
      while (!reduced.done()) std::this_thread::yield();
      if (waits) reduced.wait();
      touch(data);
      reduced.wait();
      if (waits && data.values() != std::vector<float>(64, 3.0F)) throw hd::error("wrong values");
    });
    CHECK(has(texts[1], "race: ") == !waits);
    CHECK(texts[0].empty() == waits);
  }
}

TEST_CASE("shared device: swapped collectives are named on both ranks") {
  watchdog const guard(patience);
  on_shared_devices([] {
    check_all(seen<ranks_here, hd::comm::call_mismatch>(2,
                                                        [](communicator& world) {
                                                          array<ranks_here, float> const a(8), b(8), part(4);
                                                          if (world.rank() == 0) world.all_reduce(a.span());
                                                          world.all_gather(part.read(), b.span());
                                                          if (world.rank() == 1) world.all_reduce(a.span());
                                                        }),
              {"rank 0 calls all_reduce of 8 float32 (sum) (its call 1)",
               "rank 1 calls all_gather of 8 float32 (its call 1)"});
  });
}

TEST_CASE("shared device: an error of the device ends all ranks, and says which call met it") {
  watchdog const guard(patience);
  for (std::uint64_t seed : {0, 3}) {
    auto const mode = seed == 0 ? hd::emulation::execution::eager : hd::emulation::execution::delayed;
    std::atomic<int> told{0};
    auto const texts = failure_of_run({.mode = mode, .seed = seed}, [&](communicator& world) {
      std::vector<float> on_the_host(100);
      try {
        world.all_reduce(std::span(on_the_host));
      } catch (hd::comm::rank_failed const& error) {
        if (has(error.what(), "a launch of heddle::kernels::join_ranks")) ++told;
        throw;
      }
    });
    CHECK(told == 2);
    CHECK(has(texts[0], "failed: a launch of heddle::kernels::join_ranks"));
    CHECK(texts[1] != "");
    auto const sent = failure_of_run({.mode = mode, .seed = seed}, [&](communicator& world) {
      std::vector<float> on_the_host(100);
      std::span<float> const data(on_the_host);
      world.rank() == 0 ? world.send(data, 1) : world.receive(data, 0);
    });
    CHECK(has(sent[0], "cudaMemcpyAsync of 400 bytes on the device"));
  }
}

TEST_CASE("shared device: a call of several ranks cannot be part of one rank's graph") {
  watchdog const guard(patience);
  auto const texts = failure_of_run({}, [](communicator& world) {
    array<ranks_here, float> const data(8);
    world.barrier();
    static_cast<void>(
        hd::cuda::capture(hd::cuda::execution::current().compute(), [&] { world.all_reduce(data.span()); }));
  });
  CHECK(has(texts[0], "cudaStreamWaitEvent: cudaErrorStreamCapture"));
}

TEST_CASE("shared device: a run needs a rank, and no more than a kernel's arguments hold") {
  auto const nothing = [](communicator&) {};
  CHECK_THROWS_WITH_AS(hd::cuda::run_shared_device(0, 0, nothing), "run_shared_device: ranks is 0; pass at least 1",
                       hd::error);
  CHECK_THROWS_WITH_AS(hd::cuda::run_shared_device(65, 0, nothing),
                       "run_shared_device: ranks is 65; at most 64 share a device", hd::error);
}
