// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/comm/threads.hpp>
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;
using std::chrono::milliseconds;

namespace thread_async_test {

TEST_CASE("asynchronous collectives give what the blocking ones give, also out of order and beside them") {
  watchdog const guard;
  for (std::size_t ranks = 1; ranks <= 5; ++ranks) {
    std::atomic<int> wrong{0};
    run_threads(ranks, [&](thread_communicator& world) {
      std::size_t const n = ranks;
      int const r = static_cast<int>(world.rank());
      int const all = static_cast<int>(n * (n - 1) / 2);
      for (std::size_t const count : {std::size_t{0}, std::size_t{3}, std::size_t{30000}}) {
        std::vector<int> a(count, r), b(count, 2 * r), in(count, r), out(chunk_count(count, n, world.rank()));
        std::vector<int> gathered(count, -1);
        std::vector<int> const part(chunk_count(count, n, world.rank()), 7);
        thread_handle one = world.all_reduce_async(std::span(a));
        thread_handle two = world.all_reduce_async(std::span(b), reduction::max);
        thread_handle three = world.reduce_scatter_async(std::span<int const>(in), std::span(out));
        thread_handle four = world.all_gather_async(std::span<int const>(part), std::span(gathered));
        std::vector<int> first(count, -1), second(2 * count, -1);
        std::vector<int> const part_2(chunk_count(2 * count, n, world.rank()), r);
        std::array<gather_part<int>, 2> const parts{{{part, first}, {part_2, second}}};
        thread_handle five = world.all_gather_async(gather_parts(parts));
        // a blocking call on the same group comes after them by itself
        std::vector<int> c(count, 1);
        world.all_reduce(std::span(c));
        if (!one.done() || !two.done() || !three.done() || !four.done() || !five.done()) ++wrong;
        five.wait();
        if (first != std::vector<int>(count, 7)) ++wrong;
        for (std::size_t q = 0; q < n; ++q)
          for (std::size_t i = 0; i < chunk_count(2 * count, n, q); ++i)
            if (second[chunk_begin(2 * count, n, q) + i] != static_cast<int>(q)) ++wrong;
        four.wait();
        one.wait();
        one.wait();
        three.wait();
        two.wait();
        if (a != std::vector<int>(count, all)) ++wrong;
        if (b != std::vector<int>(count, 2 * static_cast<int>(n - 1))) ++wrong;
        if (c != std::vector<int>(count, static_cast<int>(n))) ++wrong;
        if (out != std::vector<int>(out.size(), all)) ++wrong;
        if (gathered != std::vector<int>(count, 7)) ++wrong;
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("an exchange and a broadcast run beside other work") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(4, [&](thread_communicator& world) {
    std::size_t const n = world.size(), r = world.rank();
    // Equal blocks of two; then blocks whose length is 1 + sender + receiver.
    std::vector<int> in(2 * n, static_cast<int>(r)), out(2 * n, -1);
    std::vector<std::size_t> counts(n);
    std::size_t total = 0;
    for (std::size_t k = 0; k < n; ++k) total += counts[k] = 1 + r + k;
    std::vector<int> uneven_in(total, static_cast<int>(r)), uneven_out(total, -1);
    std::vector<int> news(1000, r == 2 ? 5 : 0);
    thread_handle one = world.all_to_all_async(std::span<int const>(in), std::span(out));
    thread_handle two = world.all_to_all_async(std::span<int const>(uneven_in), std::span<std::size_t const>(counts),
                                               std::span(uneven_out), std::span<std::size_t const>(counts));
    thread_handle three = world.broadcast_async(std::span(news), 2);
    three.wait();
    two.wait();
    one.wait();
    std::size_t at = 0;
    for (std::size_t k = 0; k < n; ++k) {
      if (out[2 * k] != static_cast<int>(k) || out[2 * k + 1] != static_cast<int>(k)) ++wrong;
      for (std::size_t i = 0; i < counts[k]; ++i)
        if (uneven_out[at++] != static_cast<int>(k)) ++wrong;
    }
    if (news != std::vector<int>(1000, 5)) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("every rank exchanges with both neighbours of a ring at once") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(5, [&](thread_communicator& world) {
    std::size_t const next = (world.rank() + 1) % 5;
    std::size_t const last = (world.rank() + 4) % 5;
    for (int i = 0; i < 100; ++i) {
      std::array<int, 2> out{static_cast<int>(world.rank()), i};
      std::array<int, 2> right{}, left{};
      thread_handle a = world.send_async(std::span<int>(out), next);
      thread_handle b = world.send_async(std::span<int>(out), last);
      thread_handle c = world.receive_async(std::span<int>(left), last);
      thread_handle d = world.receive_async(std::span<int>(right), next);
      d.wait();
      c.wait();
      b.wait();
      a.wait();
      if (left != std::array<int, 2>{static_cast<int>(last), i}) ++wrong;
      if (right != std::array<int, 2>{static_cast<int>(next), i}) ++wrong;
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("several posted transfers of one pair meet in order") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(2, [&](thread_communicator& world) {
    std::array<std::array<int, 1>, 4> data{};
    std::array<thread_handle, 4> handles;
    for (std::size_t k = 0; k < 4; ++k) {
      data[k][0] = world.rank() == 0 ? static_cast<int>(k) : -1;
      std::span<int> const one(data[k]);
      handles[k] = world.rank() == 0 ? world.send_async(one, 1) : world.receive_async(one, 0);
    }
    for (std::size_t k = 4; k-- > 0;) handles[k].wait();
    for (std::size_t k = 0; k < 4; ++k)
      if (data[k][0] != static_cast<int>(k)) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("an asynchronous operation is not done before its peer has called, and the caller is free meanwhile") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  std::atomic<bool> may_call{false};
  run_threads(2, [&](thread_communicator& world) {
    std::vector<int> data(8, 1);
    if (world.rank() == 1) {
      while (!may_call) std::this_thread::sleep_for(milliseconds(1));
      world.all_reduce(std::span(data));
      return;
    }
    thread_handle pending = world.all_reduce_async(std::span(data));
    std::this_thread::sleep_for(milliseconds(20));
    if (pending.done() || data[0] != 1) ++wrong;
    may_call = true;
    pending.wait();
    if (!pending.done() || data[0] != 2) ++wrong;
    thread_handle moved = std::move(pending);
    moved.wait();
    if (!moved.done() || !thread_handle{}.done()) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("a transfer needs no helper, a collective of one group does not disturb another") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(2, [&](thread_communicator& world) {
    thread_communicator data = world.split(0, world.rank(), "dp");
    thread_communicator pipe = world.split(0, world.rank(), "pp");
    std::vector<float> gradient(1000, 1.0f), activation(10, 2.0f);
    if (world.rank() == 0) {
      thread_handle reduce = data.all_reduce_async(std::span(gradient));
      for (int i = 0; i < 50; ++i) pipe.send(std::span(activation), 1);
      world.barrier();
      reduce.wait();
    } else {
      for (int i = 0; i < 50; ++i) pipe.receive(std::span(activation), 0);
      world.barrier();
      data.all_reduce(std::span(gradient));
    }
    if (gradient != std::vector<float>(1000, 2.0f)) ++wrong;
  });
  CHECK(wrong == 0);
}

}  // namespace thread_async_test
