// SPDX-License-Identifier: Apache-2.0
#pragma once
// What ranks of any kind count as sent.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include <heddle/comm/traffic.hpp>
#include "ranks.hpp"

namespace heddle::testing {

/// Equals the traffic functions.
template <class Ranks>
void check_counters(std::size_t ranks, std::vector<std::size_t> const& counts) {
  using namespace heddle::comm;
  std::atomic<int> wrong{0};
  Ranks::run(ranks, [&](typename Ranks::communicator& world) {
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
      array<Ranks, float> const whole(count), part(chunk);
      counted(operation::all_reduce, all_reduce_sent(count, ranks, r), 4, [&] { world.all_reduce(whole.span()); });
      counted(operation::reduce_scatter, reduce_scatter_sent(count, ranks, r), 4,
              [&] { world.reduce_scatter(whole.read(), part.span()); });
      counted(operation::all_gather, all_gather_sent(count, ranks, r), 4,
              [&] { world.all_gather(part.read(), whole.span()); });
      // made together, each counts
      array<Ranks, float> const other(3 * count), other_part(chunk_count(3 * count, ranks, r));
      std::array<gather_part<float>, 2> const parts{{{part.read(), whole.span()}, {other_part.read(), other.span()}}};
      communication_counters const before = world.counters();
      world.all_gather(gather_parts(parts));
      std::size_t const sent = all_gather_sent(count, ranks, r) + all_gather_sent(3 * count, ranks, r);
      if ((world.counters() - before)[operation::all_gather] != operation_counter{2, sent, 4 * sent}) ++wrong;
      array<Ranks, double> const from(count * ranks), to(count * ranks);
      counted(operation::all_to_all, all_to_all_sent(count * ranks, ranks), 8,
              [&] { world.all_to_all(from.read(), to.span()); });
      std::size_t const root = count % ranks;
      counted(operation::broadcast, broadcast_sent(count, ranks, r, root), 4,
              [&] { world.broadcast(whole.span(), root); });
    }
    counted(operation::barrier, 0, 1, [&] { world.barrier(); });

    // unequal blocks: r + q elements to rank q
    std::vector<std::size_t> lengths(ranks);
    std::size_t sum = 0;
    for (std::size_t q = 0; q < ranks; ++q) sum += lengths[q] = r + q;
    array<Ranks, std::uint8_t> const from(sum), to(sum);
    counted(operation::all_to_all, sum - 2 * r, 1, [&] { world.all_to_all(from.read(), lengths, to.span(), lengths); });

    if (r + 1 < ranks || r > 0) {  // a chain of transfers; the sender sends, the receiver does not
      array<Ranks, float> const data(9);
      if (r > 0) counted(operation::receive, 0, 4, [&] { world.receive(data.span(), r - 1); });
      if (r + 1 < ranks) counted(operation::send, send_sent(9), 4, [&] { world.send(data.span(), r + 1); });
    }
    // asynchronous operations count as the same operations, when they are done
    array<Ranks, float> const whole(100);
    counted(operation::all_reduce, all_reduce_sent(100, ranks, r), 4,
            [&] { world.all_reduce_async(whole.span()).wait(); });
  });
  CHECK(wrong == 0);
}

/// Each communicator counts for itself.
template <class Ranks>
void check_counters_of_groups() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  std::atomic<int> wrong{0};
  Ranks::run(4, [&](communicator& world) {
    communicator pair = world.split(world.rank() / 2, world.rank(), "pair");
    array<Ranks, float> const data(10);
    pair.all_reduce(data.span());
    pair.all_reduce(data.span());
    if (pair.counters()[operation::all_reduce] != operation_counter{2, 20, 80}) ++wrong;
    if (world.counters()[operation::all_reduce] != operation_counter{}) ++wrong;
    if (world.counters()[operation::split].calls != 1) ++wrong;
  });
  CHECK(wrong == 0);
}

}  // namespace heddle::testing
