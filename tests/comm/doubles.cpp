// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/comm/delaying.hpp>
#include <heddle/comm/recording.hpp>
#include <heddle/comm/threads.hpp>
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace doubles_test {
namespace {

/// 5 buckets of 4 elements, bucket i of rank r holds i + r, through two buffers. True where every sum is right.
template <class C>
bool reduce_buckets(C& group) {
  std::array<std::array<int, 4>, 2> buffers{};
  std::array<typename C::handle, 2> pending;
  bool right = true;
  for (int i = 0; i < 7; ++i) {
    std::size_t const slot = static_cast<std::size_t>(i) % 2;
    if (i >= 2) {
      pending[slot].wait();
      for (int const x : buffers[slot]) right = right && x == 2 * (i - 2) + 1;
    }
    if (i >= 5) continue;
    std::this_thread::sleep_for(milliseconds(5));  // the backward pass that fills the bucket
    buffers[slot].fill(i + static_cast<int>(group.rank()));
    pending[slot] = group.all_reduce_async(std::span<int>(buffers[slot]));
  }
  return right;
}

}  // namespace

TEST_CASE("delayed reductions through a double buffer: right sums, and overlapped (OV-1)") {
  watchdog const guard;
  std::atomic<int> right{0};
  std::atomic<long long> longest{0};
  run_threads(2, [&](thread_communicator& world) {
    delaying late(std::move(world), {.seed = 1, .shortest = milliseconds(60), .longest = milliseconds(60)});
    auto const start = steady_clock::now();
    if (reduce_buckets(late)) ++right;
    long long const took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start).count();
    if (took > longest) longest = took;
  });
  CHECK(right == 2);
  CHECK(longest < 5 * 60 + 5 * 5);  // what it takes without overlap
  CHECK(longest > 3 * 60 - 1);      // three delays of one slot follow each other
}

TEST_CASE("without overlap an asynchronous collective is over when its call returns, and a transfer is not") {
  watchdog const guard;
  std::array<std::array<int, 2>, 2> seen{};
  run_threads(2, [&](thread_communicator& world) {
    delaying at_once(std::move(world), {.longest = microseconds(0), .delay_blocking = false, .overlap = false});
    std::size_t const r = at_once.rank();
    std::array<int, 1> sum{static_cast<int>(r) + 1}, from{0};
    auto reduced = at_once.all_reduce_async(std::span<int>(sum));
    seen[r][0] = sum[0];
    // Both send first: a send that waited for its receive would end in the watchdog.
    auto sent = at_once.send_async(std::span<int>(sum), 1 - r);
    at_once.receive(std::span<int>(from), 1 - r);
    seen[r][1] = from[0];
    reduced.wait();
    sent.wait();
  });
  CHECK(seen == std::array<std::array<int, 2>, 2>{{{3, 3}, {3, 3}}});
}

TEST_CASE("bounds of a delay that are negative or the wrong way round are refused") {
  auto const text_of = [](delay_options options) {
    std::string text = "no error";
    run_threads(1, [&](thread_communicator& world) {
      try {
        delaying<thread_communicator>(std::move(world), options).barrier();
      } catch (heddle::error const& e) {
        text = e.what();
      }
    });
    return text;
  };
  CHECK(text_of({.shortest = microseconds(2), .longest = microseconds(2)}) == "no error");
  CHECK(text_of({.shortest = microseconds(2001)}) ==
        "delaying: 'shortest' is 2001 us and 'longest' 2000 us; give delays with 0 <= shortest <= longest");
  CHECK(text_of({.shortest = microseconds(-1)}).substr(0, 27) == "delaying: 'shortest' is -1 ");
}

TEST_CASE("a buffer that is filled again too early gives wrong sums under delay (OV-1)") {
  watchdog const guard;
  std::array<int, 2> result{};
  run_threads(2, [&](thread_communicator& world) {
    delaying late(std::move(world), {.seed = 1, .shortest = milliseconds(100), .longest = milliseconds(100)});
    std::size_t const r = late.rank();
    std::array<int, 1> buffer{static_cast<int>(r)};
    auto first = late.all_reduce_async(std::span<int>(buffer));
    buffer[0] = 10 + static_cast<int>(r);  // the fault: `first` has not been waited for
    auto second = late.all_reduce_async(std::span<int>(buffer));
    first.wait();
    second.wait();
    result[r] = buffer[0];
  });
  // 21 is the sum of the second values; the first reduction took them too, and the second summed its result again
  CHECK(result == std::array<int, 2>{42, 42});
}

TEST_CASE("a result that is read before wait() is the old one under delay (LS-2)") {
  watchdog const guard;
  std::array<std::array<int, 2>, 2> early{}, after{};
  run_threads(2, [&](thread_communicator& world) {
    delaying late(std::move(world), {.seed = 3, .shortest = milliseconds(50), .longest = milliseconds(50)});
    std::size_t const r = late.rank();
    std::array<int, 1> flag{r == 0 ? 1 : 0};  // inf was found on rank 0 alone
    auto pending = late.all_reduce_async(std::span<int>(flag), reduction::max);
    CHECK(!pending.done());
    early[r][0] = flag[0];
    pending.wait();
    CHECK(pending.done());
    after[r][0] = flag[0];
  });
  CHECK(early[1][0] == 0);
  CHECK(after[0][0] == 1);
  CHECK(after[1][0] == 1);
}

TEST_CASE("delays change no result, in any operation, in groups made from it") {
  watchdog const guard(std::chrono::seconds(60));
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    std::atomic<int> wrong{0};
    run_threads(4, [&](thread_communicator& world) {
      delaying late(std::move(world), {.seed = seed, .longest = microseconds(500)});
      auto row = late.split(late.rank() / 2, late.rank(), "row");
      std::array<std::size_t, 2> const column{late.rank() % 2, late.rank() % 2 + 2};
      auto col = late.subset(column, "column");
      int const r = static_cast<int>(late.rank());
      for (int i = 0; i < 5; ++i) {
        std::vector<int> sum(5, r), in(4, r), part(1), all(4);
        auto one = late.all_reduce_async(std::span(sum));
        auto two = row.reduce_scatter_async(std::span<int const>(in).first(2), std::span(part));
        auto three = col.all_gather_async(std::span<int const>(in).first(2), std::span(all));
        std::vector<int> pair(2), quad(4);
        std::array<gather_part<int>, 2> const parts{
            {{std::span<int const>(in).first(1), pair}, {std::span<int const>(in).last(2), quad}}};
        auto together = col.all_gather_async(gather_parts(parts));
        std::array<int, 1> out{r}, got{-1};
        std::size_t const peer = 1 - row.rank();
        auto four = row.send_async(std::span<int>(out), peer);
        auto five = row.receive_async(std::span<int>(got), peer);
        std::vector<int> max(3, r);
        late.all_reduce(std::span(max), reduction::max);
        five.wait();
        four.wait();
        three.wait();
        together.wait();
        if (pair != std::vector<int>{r % 2, r % 2 + 2} || quad != all) ++wrong;
        std::fill(pair.begin(), pair.end(), -1);
        std::fill(quad.begin(), quad.end(), -1);
        col.all_gather(gather_parts(parts));
        if (pair != std::vector<int>{r % 2, r % 2 + 2} || quad != all) ++wrong;
        two.wait();
        one.wait();
        if (sum != std::vector<int>(5, 6) || max != std::vector<int>(3, 3)) ++wrong;
        if (part[0] != (r / 2 == 0 ? 1 : 5) || got[0] != (r ^ 1)) ++wrong;
        if (all != std::vector<int>{r % 2, r % 2, r % 2 + 2, r % 2 + 2}) ++wrong;
        std::vector<int> exchanged(4);
        late.all_to_all(std::span<int const>(in), std::span(exchanged));
        if (exchanged != std::vector<int>{0, 1, 2, 3}) ++wrong;
        std::array<std::size_t, 4> const ones{1, 1, 1, 1};
        late.all_to_all(std::span<int const>(in), ones, std::span(exchanged), ones);
        if (exchanged != std::vector<int>{0, 1, 2, 3}) ++wrong;
        late.broadcast(std::span(in), 2);
        if (in != std::vector<int>(4, 2)) ++wrong;
        if (row.rank() == 0) row.send(std::span(in), 1);
        if (row.rank() == 1) row.receive(std::span(in), 0);
        row.barrier();
      }
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a failure reaches delayed operations, and unwinding takes back what has not begun") {
  watchdog const guard;
  std::array<std::string, 2> texts;
  try {
    run_threads(2, [&](thread_communicator& world) {
      delaying late(std::move(world), {.seed = 1, .shortest = milliseconds(30), .longest = milliseconds(60)});
      std::vector<int> data(3), other(3);
      auto one = late.all_reduce_async(std::span(data));
      auto two = late.receive_async(std::span(other), 1 - late.rank());
      if (late.rank() == 1) throw std::runtime_error("no more");
      try {
        one.wait();
      } catch (rank_failed const& e) {
        texts[0] = e.what();
        throw;
      }
    });
  } catch (rank_failed const& e) {
    texts[1] = e.what();
  }
  CHECK(texts[0] == "rank 1 failed: no more");
  CHECK(texts[1] == texts[0]);
}

TEST_CASE("the recorder lists the calls of its rank, in groups made from it too") {
  watchdog const guard;
  std::array<std::vector<recorded_call>, 2> calls;
  std::atomic<int> wrong{0};
  run_threads(2, [&](thread_communicator& world) {
    recording record(std::move(world));
    auto pair = record.split(0, record.rank(), "pair");
    std::vector<float> data(4, 1.0f), half(2);
    pair.all_reduce(std::span(data), reduction::max);
    record.all_gather_async(std::span<float const>(half), std::span(data)).wait();
    std::vector<float> more(1);
    std::array<gather_part<float>, 2> const parts{
        {{half, data}, {std::span<float const>(half).first(record.rank() == 0), more}}};
    record.all_gather(gather_parts(parts));
    pair.broadcast(std::span(half), 1);
    if (pair.rank() == 0) pair.send(std::span(half), 1);
    if (pair.rank() == 1) pair.receive(std::span(half), 0);
    record.barrier();
    if (pair.counters()[operation::all_reduce].calls != 1) ++wrong;
    calls[record.rank()] = record.calls();
    record.clear();
    if (!pair.calls().empty()) ++wrong;
  });
  CHECK(wrong == 0);
  auto const expected = [](operation last, std::size_t peer) {
    return std::vector<recorded_call>{{operation::split, 0, element_kind::byte, "world", 0, false},
                                      {operation::all_reduce, 4, element_kind::float32, "pair", 0, false},
                                      {operation::all_gather, 4, element_kind::float32, "world", 0, true},
                                      {operation::all_gather, 4, element_kind::float32, "world", 0, false},
                                      {operation::all_gather, 1, element_kind::float32, "world", 0, false, true},
                                      {operation::broadcast, 2, element_kind::float32, "pair", 1, false},
                                      {last, 2, element_kind::float32, "pair", peer, false},
                                      {operation::barrier, 0, element_kind::byte, "world", 0, false}};
  };
  CHECK(calls[0] == expected(operation::send, 1));
  CHECK(calls[1] == expected(operation::receive, 0));
}

}  // namespace doubles_test
