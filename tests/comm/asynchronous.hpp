// SPDX-License-Identifier: Apache-2.0
#pragma once
// Asynchronous operations, on ranks of any kind.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/comm/traffic.hpp>
#include "ranks.hpp"

namespace heddle::testing {

/// They give what the blocking ones give, also out of order and beside them.
template <class Ranks>
void check_asynchronous_collectives(std::size_t ranks, std::size_t largest) {
  using namespace heddle::comm;
  using handle = typename Ranks::handle;
  using array_of = array<Ranks, int>;
  std::atomic<int> wrong{0};
  Ranks::run(ranks, [&](typename Ranks::communicator& world) {
    std::size_t const n = ranks;
    int const r = static_cast<int>(world.rank());
    int const all = static_cast<int>(n * (n - 1) / 2);
    for (std::size_t const count : {std::size_t{0}, std::size_t{3}, largest}) {
      array_of const a(count, r), b(count, 2 * r), in(count, r), out(chunk_count(count, n, world.rank()));
      array_of const gathered(count, -1), part(chunk_count(count, n, world.rank()), 7);
      handle one = world.all_reduce_async(a.span());
      handle two = world.all_reduce_async(b.span(), reduction::max);
      handle three = world.reduce_scatter_async(in.read(), out.span());
      handle four = world.all_gather_async(part.read(), gathered.span());
      array_of const first(count, -1), second(2 * count, -1), part_2(chunk_count(2 * count, n, world.rank()), r);
      std::array<gather_part<int>, 2> const parts{{{part.read(), first.span()}, {part_2.read(), second.span()}}};
      handle five = world.all_gather_async(gather_parts(parts));
      // a blocking call on the same group comes after them by itself
      array_of const c(count, 1);
      world.all_reduce(c.span());
      if (c.values() != std::vector<int>(count, static_cast<int>(n))) ++wrong;
      if (!one.done() || !two.done() || !three.done() || !four.done() || !five.done()) ++wrong;
      five.wait();
      if (first.values() != std::vector<int>(count, 7)) ++wrong;
      std::vector<int> const both = second.values();
      for (std::size_t q = 0; q < n; ++q)
        for (std::size_t i = 0; i < chunk_count(2 * count, n, q); ++i)
          if (both[chunk_begin(2 * count, n, q) + i] != static_cast<int>(q)) ++wrong;
      four.wait();
      one.wait();
      one.wait();
      three.wait();
      two.wait();
      if (a.values() != std::vector<int>(count, all)) ++wrong;
      if (b.values() != std::vector<int>(count, 2 * static_cast<int>(n - 1))) ++wrong;
      if (out.values() != std::vector<int>(chunk_count(count, n, world.rank()), all)) ++wrong;
      if (gathered.values() != std::vector<int>(count, 7)) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

/// An exchange and a broadcast beside other work.
template <class Ranks>
void check_asynchronous_exchange() {
  using handle = typename Ranks::handle;
  using array_of = array<Ranks, int>;
  std::atomic<int> wrong{0};
  Ranks::run(4, [&](typename Ranks::communicator& world) {
    std::size_t const n = world.size(), r = world.rank();
    // Equal blocks of two; then blocks whose length is 1 + sender + receiver.
    array_of const in(2 * n, static_cast<int>(r)), out(2 * n, -1);
    std::vector<std::size_t> counts(n);
    std::size_t total = 0;
    for (std::size_t k = 0; k < n; ++k) total += counts[k] = 1 + r + k;
    array_of const uneven_in(total, static_cast<int>(r)), uneven_out(total, -1), news(1000, r == 2 ? 5 : 0);
    handle one = world.all_to_all_async(in.read(), out.span());
    handle two = world.all_to_all_async(uneven_in.read(), std::span<std::size_t const>(counts), uneven_out.span(),
                                        std::span<std::size_t const>(counts));
    handle three = world.broadcast_async(news.span(), 2);
    three.wait();
    two.wait();
    one.wait();
    std::size_t at = 0;
    std::vector<int> const even = out.values(), uneven = uneven_out.values();
    for (std::size_t k = 0; k < n; ++k) {
      if (even[2 * k] != static_cast<int>(k) || even[2 * k + 1] != static_cast<int>(k)) ++wrong;
      for (std::size_t i = 0; i < counts[k]; ++i)
        if (uneven[at++] != static_cast<int>(k)) ++wrong;
    }
    if (news.values() != std::vector<int>(1000, 5)) ++wrong;
  });
  CHECK(wrong == 0);
}

/// Every rank exchanges with both neighbours of a ring at once.
template <class Ranks>
void check_ring() {
  using handle = typename Ranks::handle;
  using array_of = array<Ranks, int>;
  std::atomic<int> wrong{0};
  Ranks::run(5, [&](typename Ranks::communicator& world) {
    std::size_t const next = (world.rank() + 1) % 5;
    std::size_t const last = (world.rank() + 4) % 5;
    array_of const out(2), right(2), left(2);
    for (int i = 0; i < Ranks::rounds / 2; ++i) {
      out.set({static_cast<int>(world.rank()), i});
      handle a = world.send_async(out.span(), next);
      handle b = world.send_async(out.span(), last);
      handle c = world.receive_async(left.span(), last);
      handle d = world.receive_async(right.span(), next);
      d.wait();
      c.wait();
      b.wait();
      a.wait();
      if (left.values() != std::vector<int>{static_cast<int>(last), i}) ++wrong;
      if (right.values() != std::vector<int>{static_cast<int>(next), i}) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

/// Several posted transfers of one pair meet in order.
template <class Ranks>
void check_posted_transfers() {
  std::atomic<int> wrong{0};
  Ranks::run(2, [&](typename Ranks::communicator& world) {
    array<Ranks, int> const data(world.rank() == 0 ? std::vector<int>{0, 1, 2, 3} : std::vector<int>(4, -1));
    std::array<typename Ranks::handle, 4> handles;
    for (std::size_t k = 0; k < 4; ++k) {
      std::span<int> const one = data.span().subspan(k, 1);
      handles[k] = world.rank() == 0 ? world.send_async(one, 1) : world.receive_async(one, 0);
    }
    for (std::size_t k = 4; k-- > 0;) handles[k].wait();
    if (data.values() != std::vector<int>{0, 1, 2, 3}) ++wrong;
  });
  CHECK(wrong == 0);
}

/// Not done before its peer has called, and the caller is free meanwhile.
template <class Ranks>
void check_done() {
  using handle = typename Ranks::handle;
  std::atomic<int> wrong{0};
  std::atomic<bool> may_call{false};
  Ranks::run(2, [&](typename Ranks::communicator& world) {
    array<Ranks, int> const data(8, 1);
    if (world.rank() == 1) {
      while (!may_call) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      world.all_reduce(data.span());
      return;
    }
    handle pending = world.all_reduce_async(data.span());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (pending.done() || data.first() != 1) ++wrong;
    may_call = true;
    pending.wait();
    if (!pending.done() || data.first() != 2) ++wrong;
    handle moved = std::move(pending);
    moved.wait();
    if (!moved.done() || !handle{}.done()) ++wrong;
  });
  CHECK(wrong == 0);
}

/// A transfer needs no helper, a collective of one group does not disturb another.
template <class Ranks>
void check_groups_beside_each_other() {
  using communicator = typename Ranks::communicator;
  std::atomic<int> wrong{0};
  Ranks::run(2, [&](communicator& world) {
    communicator data = world.split(0, world.rank(), "dp");
    communicator pipe = world.split(0, world.rank(), "pp");
    array<Ranks, float> const gradient(1000, 1.0f), activation(10, 2.0f);
    if (world.rank() == 0) {
      typename Ranks::handle reduce = data.all_reduce_async(gradient.span());
      for (int i = 0; i < Ranks::rounds / 4; ++i) pipe.send(activation.span(), 1);
      world.barrier();
      reduce.wait();
    } else {
      for (int i = 0; i < Ranks::rounds / 4; ++i) pipe.receive(activation.span(), 0);
      world.barrier();
      data.all_reduce(gradient.span());
    }
    if (gradient.values() != std::vector<float>(1000, 2.0f)) ++wrong;
  });
  CHECK(wrong == 0);
}

/// A handle that nobody waited for waits when it ends, and so does an overwritten one.
template <class Ranks>
void check_handles_wait_at_their_end() {
  std::atomic<int> wrong{0};
  Ranks::run(2, [&](typename Ranks::communicator& world) {
    array<Ranks, int> const data(50, 1), next(50, 2);
    {
      typename Ranks::handle pending = world.all_reduce_async(data.span());
      pending = world.all_reduce_async(next.span());
      if (data.values() != std::vector<int>(50, 2)) ++wrong;
    }
    if (next.values() != std::vector<int>(50, 4)) ++wrong;
  });
  CHECK(wrong == 0);
}

}  // namespace heddle::testing
