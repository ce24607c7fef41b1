// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <heddle/comm/threads.hpp>
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;

namespace thread_counters_test {
namespace {

// The last one is above the size that one rank copies for all (128 KiB in all).
constexpr std::size_t counts[] = {0, 1, 5, 8, 100, 50001};

}  // namespace

TEST_CASE("counted copies equal the traffic functions") {
  watchdog const guard(std::chrono::seconds(60));
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    std::atomic<int> wrong{0};
    run_threads(ranks, [&](thread_communicator& world) {
      std::size_t const r = world.rank();
      auto const counted = [&](operation op, std::size_t elements, std::size_t size, auto call) {
        communication_counters const before = world.counters();
        call();
        communication_counters const moved = world.counters() - before;
        if (moved[op] != operation_counter{1, elements, elements * size}) ++wrong;
        if (moved.total() != moved[op]) ++wrong;
      };
      for (std::size_t const count : counts) {
        std::size_t const chunk = chunk_count(count, ranks, r);
        std::vector<float> whole(count), part(chunk);
        counted(operation::all_reduce, all_reduce_sent(count, ranks, r), 4,
                [&] { world.all_reduce(std::span(whole)); });
        counted(operation::reduce_scatter, reduce_scatter_sent(count, ranks, r), 4,
                [&] { world.reduce_scatter(std::span<float const>(whole), std::span(part)); });
        counted(operation::all_gather, all_gather_sent(count, ranks, r), 4,
                [&] { world.all_gather(std::span<float const>(part), std::span(whole)); });
        // made together, each counts
        std::vector<float> other(3 * count), other_part(chunk_count(3 * count, ranks, r));
        std::array<gather_part<float>, 2> const parts{{{part, whole}, {other_part, other}}};
        communication_counters const before = world.counters();
        world.all_gather(gather_parts(parts));
        std::size_t const sent = all_gather_sent(count, ranks, r) + all_gather_sent(3 * count, ranks, r);
        if ((world.counters() - before)[operation::all_gather] != operation_counter{2, sent, 4 * sent}) ++wrong;
        std::vector<double> from(count * ranks), to(count * ranks);
        counted(operation::all_to_all, all_to_all_sent(count * ranks, ranks), 8,
                [&] { world.all_to_all(std::span<double const>(from), std::span(to)); });
        std::size_t const root = count % ranks;
        counted(operation::broadcast, broadcast_sent(count, ranks, r, root), 4,
                [&] { world.broadcast(std::span(whole), root); });
      }
      counted(operation::barrier, 0, 1, [&] { world.barrier(); });

      // unequal blocks: r + q elements to rank q
      std::vector<std::size_t> lengths(ranks);
      std::size_t sum = 0;
      for (std::size_t q = 0; q < ranks; ++q) sum += lengths[q] = r + q;
      std::vector<std::uint8_t> from(sum), to(sum);
      counted(operation::all_to_all, sum - 2 * r, 1,
              [&] { world.all_to_all(std::span<std::uint8_t const>(from), lengths, std::span(to), lengths); });

      if (r + 1 < ranks || r > 0) {  // a chain of transfers; the sender sends, the receiver does not
        std::vector<float> data(9);
        if (r > 0) counted(operation::receive, 0, 4, [&] { world.receive(std::span(data), r - 1); });
        if (r + 1 < ranks) counted(operation::send, send_sent(9), 4, [&] { world.send(std::span(data), r + 1); });
      }
      // asynchronous operations count as the same operations, when they are done
      std::vector<float> whole(100);
      counted(operation::all_reduce, all_reduce_sent(100, ranks, r), 4,
              [&] { world.all_reduce_async(std::span(whole)).wait(); });
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("each communicator counts for itself") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(4, [&](thread_communicator& world) {
    thread_communicator pair = world.split(world.rank() / 2, world.rank(), "pair");
    std::vector<float> data(10);
    pair.all_reduce(std::span(data));
    pair.all_reduce(std::span(data));
    if (pair.counters()[operation::all_reduce] != operation_counter{2, 20, 80}) ++wrong;
    if (world.counters()[operation::all_reduce] != operation_counter{}) ++wrong;
    if (world.counters()[operation::split].calls != 1) ++wrong;
  });
  CHECK(wrong == 0);
}

}  // namespace thread_counters_test
