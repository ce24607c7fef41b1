// SPDX-License-Identifier: Apache-2.0
#include <heddle/comm/threads.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;

namespace threads_test {
namespace {

// Empty, fewer elements than ranks, not a multiple, blocks and a rest, and one that the ranks share (> 128 KiB).
constexpr std::size_t counts[] = {0, 1, 3, 7, 8, 257, 1000, 20011};

/// Whole numbers, so that every sum is exact.
template <class T>
std::vector<T> values(std::size_t rank, std::size_t count) {
  std::vector<T> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<T>((rank + 2) * (i % 5 + 1) % 13);
  return v;
}

template <class T>
std::vector<T> joined(reduction how, std::size_t ranks, std::size_t count) {
  std::vector<T> result = values<T>(0, count);
  for (std::size_t r = 1; r < ranks; ++r) {
    std::vector<T> const next = values<T>(r, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (how == reduction::sum) result[i] = static_cast<T>(result[i] + next[i]);
      if (how == reduction::max && next[i] > result[i]) result[i] = next[i];
      if (how == reduction::min && next[i] < result[i]) result[i] = next[i];
    }
  }
  return result;
}

template <class T>
std::vector<T> chunk_of(std::vector<T> const& whole, std::size_t ranks, std::size_t rank) {
  auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(chunk_begin(whole.size(), ranks, rank));
  return {begin, begin + static_cast<std::ptrdiff_t>(chunk_count(whole.size(), ranks, rank))};
}

template <class T>
void reductions_and_gathers(std::size_t ranks) {
  std::atomic<int> wrong{0};
  run_threads(ranks, [&](thread_communicator& world) {
    std::size_t const r = world.rank();
    for (std::size_t const count : counts) {
      for (reduction const how : {reduction::sum, reduction::max, reduction::min}) {
        std::vector<T> const expected = joined<T>(how, ranks, count);
        std::vector<T> data = values<T>(r, count);
        world.all_reduce(std::span(data), how);
        if (data != expected) ++wrong;

        std::vector<T> const in = values<T>(r, count);
        std::vector<T> out(chunk_count(count, ranks, r));
        world.reduce_scatter(std::span<T const>(in), std::span(out), how);
        if (out != chunk_of(expected, ranks, r)) ++wrong;

        data = in;  // in place: out is this rank's chunk of in
        std::span<T> const part = std::span(data).subspan(chunk_begin(count, ranks, r), out.size());
        world.reduce_scatter(std::span<T const>(data), part, how);
        if (!std::equal(part.begin(), part.end(), out.begin(), out.end())) ++wrong;
      }
      std::vector<T> const whole = values<T>(3, count);
      std::vector<T> const mine = chunk_of(whole, ranks, r);
      std::vector<T> gathered(count);
      world.all_gather(std::span<T const>(mine), std::span(gathered));
      if (gathered != whole) ++wrong;

      std::vector<T> in_place(count);
      std::span<T> const part = std::span(in_place).subspan(chunk_begin(count, ranks, r), mine.size());
      std::copy(mine.begin(), mine.end(), part.begin());
      world.all_gather(std::span<T const>(part), std::span(in_place));
      if (in_place != whole) ++wrong;

      // Several at once: this one, one in place, one of another length, one of nothing.
      std::vector<T> const whole_2 = values<T>(5, 2 * count + 1), mine_2 = chunk_of(whole_2, ranks, r);
      std::vector<T> first(count), second(count), third(whole_2.size());
      std::span<T> const place = std::span(second).subspan(chunk_begin(count, ranks, r), mine.size());
      std::copy(mine.begin(), mine.end(), place.begin());
      std::array<gather_part<T>, 4> const parts{{{mine, first}, {place, second}, {mine_2, third}, {}}};
      world.all_gather(gather_parts(parts));
      if (first != whole || second != whole || third != whole_2) ++wrong;
      world.all_gather(gather_parts<T>());

      for (std::size_t root = 0; root < ranks; ++root) {
        std::vector<T> data = values<T>(r, count);
        world.broadcast(std::span(data), root);
        if (data != values<T>(root, count)) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("reductions, gathers and broadcasts on 1 to 8 ranks") {
  watchdog const guard(std::chrono::seconds(60));
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    CAPTURE(ranks);
    reductions_and_gathers<float>(ranks);
  }
}

TEST_CASE("every element type is reduced and moved") {
  watchdog const guard(std::chrono::seconds(60));
  reductions_and_gathers<double>(3);
  reductions_and_gathers<std::int8_t>(3);
  reductions_and_gathers<std::int16_t>(3);
  reductions_and_gathers<std::int32_t>(3);
  reductions_and_gathers<std::int64_t>(3);
  reductions_and_gathers<std::uint8_t>(3);
  reductions_and_gathers<std::uint16_t>(3);
  reductions_and_gathers<std::uint32_t>(3);
  reductions_and_gathers<std::uint64_t>(3);
}

TEST_CASE("all-to-all of equal and unequal blocks") {
  watchdog const guard;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    std::atomic<int> wrong{0};
    run_threads(ranks, [&](thread_communicator& world) {
      std::size_t const r = world.rank();
      for (std::size_t const block : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{3001}}) {
        std::vector<std::int32_t> in(ranks * block), out(ranks * block);
        for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::int32_t>(r * 100000 + i);
        world.all_to_all(std::span<std::int32_t const>(in), std::span(out));
        for (std::size_t q = 0; q < ranks; ++q)
          for (std::size_t i = 0; i < block; ++i)
            if (out[q * block + i] != static_cast<std::int32_t>(q * 100000 + r * block + i)) ++wrong;
      }
      // rank r sends (r + q) % 3 elements of value 10 r + q to rank q, nothing to some
      std::vector<std::size_t> to(ranks), from(ranks);
      std::vector<std::int32_t> in, expected;
      for (std::size_t q = 0; q < ranks; ++q) {
        to[q] = from[q] = (r + q) % 3;
        in.insert(in.end(), to[q], static_cast<std::int32_t>(10 * r + q));
        expected.insert(expected.end(), from[q], static_cast<std::int32_t>(10 * q + r));
      }
      std::vector<std::int32_t> out(expected.size());
      world.all_to_all(std::span<std::int32_t const>(in), to, std::span(out), from);
      if (out != expected) ++wrong;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("a reduction has the order of the ranks, the same bits everywhere and every time") {
  watchdog const guard;
  // Floats near 1e8 are 8 apart. In the order of the ranks the sum is 0.5; backwards, from any other rank on, or in
  // pairs it is 0, 1 or 1.5.
  std::array<float, 4> const parts{1.0f, 1e8f, -1e8f, 0.5f};
  for (std::size_t const count : {std::size_t{5}, std::size_t{40000}}) {
    for (int round = 0; round < 5; ++round) {
      std::array<std::vector<float>, 4> result;
      run_threads(4, [&](thread_communicator& world) {
        std::vector<float> data(count, parts[world.rank()]);
        world.all_reduce(std::span(data));
        result[world.rank()] = data;
      });
      std::vector<float> const expected(count, 0.5f);
      for (auto const& one : result) CHECK(std::memcmp(one.data(), expected.data(), count * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("max and min keep a NaN of any rank") {
  watchdog const guard;
  for (std::size_t bad = 0; bad < 3; ++bad) {
    std::atomic<int> kept{0};
    run_threads(3, [&](thread_communicator& world) {
      std::array<float, 2> data{1.0f, world.rank() == bad ? std::numeric_limits<float>::quiet_NaN() : 2.0f};
      std::array<float, 2> other = data;
      world.all_reduce(std::span<float>(data), reduction::max);
      world.all_reduce(std::span<float>(other), reduction::min);
      if (std::isnan(data[1]) && std::isnan(other[1]) && data[0] == 1.0f) ++kept;
    });
    CHECK(kept == 3);
  }
}

TEST_CASE("transfers meet in the order of their calls, in both directions, whoever comes first") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(2, [&](thread_communicator& world) {
    std::size_t const peer = 1 - world.rank();
    for (int i = 0; i < 200; ++i) {
      std::array<int, 3> out{i, i + 1, static_cast<int>(world.rank())};
      std::array<int, 3> in{};
      if (world.rank() == 0) {
        world.send(std::span<int>(out), peer);
        world.receive(std::span<int>(in), peer);
      } else {
        world.receive(std::span<int>(in), peer);
        world.send(std::span<int>(out), peer);
      }
      if (in != std::array<int, 3>{i, i + 1, static_cast<int>(peer)}) ++wrong;
      std::span<int> const nothing;
      if (world.rank() == 0) {
        world.send(nothing, peer);
      } else {
        world.receive(nothing, peer);
      }
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("split orders by key, names the groups and numbers their ranks") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(6, [&](thread_communicator& world) {
    thread_communicator rows = world.split(world.rank() / 3, 10 - world.rank(), "row");
    if (rows.size() != 3 || rows.rank() != 2 - world.rank() % 3 || rows.name() != "row") ++wrong;
    std::vector<int> member{static_cast<int>(world.rank())};
    std::vector<int> all(3);
    rows.all_gather(std::span<int const>(member), std::span(all));
    int const first = static_cast<int>(world.rank() / 3 * 3);
    if (all != std::vector<int>{first + 2, first + 1, first}) ++wrong;
    thread_communicator alone = rows.split(rows.rank(), 0);
    if (alone.size() != 1 || alone.name() != "row" || alone.world_rank() != world.rank()) ++wrong;
    alone.all_reduce(std::span(member));
    alone.barrier();
    if (member[0] != static_cast<int>(world.rank())) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("a subset is called by its members alone, in the order of its list") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(5, [&](thread_communicator& world) {
    std::array<std::size_t, 3> const list{4, 0, 2};
    if (world.rank() % 2 == 1) return;
    thread_communicator first = world.subset(list, "even");
    thread_communicator second = world.subset(list, "even");
    std::array<std::size_t, 3> const position{1, 2, 0};
    if (first.rank() != position[world.rank() / 2] || first.size() != 3 || first.name() != "even") ++wrong;
    std::vector<int> data{1};
    first.all_reduce(std::span(data));
    second.all_reduce(std::span(data));
    second.broadcast(std::span(data), 1);
    if (data[0] != 9) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("two host threads of each rank use their own groups for 1000 rounds (NC-3)") {
  watchdog const guard(std::chrono::seconds(60));
  std::atomic<int> wrong{0};
  run_threads(2, [&](thread_communicator& world) {
    thread_communicator tensor = world.split(0, world.rank(), "tp");
    thread_communicator data = world.split(0, world.rank(), "dp");
    auto const rounds = [&](thread_communicator& group, int add) {
      for (int i = 0; i < 1000; ++i) {
        std::array<int, 2> sum{i, add};
        group.all_reduce(std::span<int>(sum));
        if (sum != std::array<int, 2>{2 * i, 2 * add}) ++wrong;
      }
    };
    std::thread other([&] { rounds(data, 1); });
    rounds(tensor, 2);
    other.join();
  });
  CHECK(wrong == 0);
}

TEST_CASE("the example of the reference page") {
  watchdog const guard;
  std::atomic<int> right{0};
  // [communicate]
  run_threads(4, [&](thread_communicator& world) {
    // ranks 0 1 | 2 3 hold parts of one layer; ranks 0 2 | 1 3 hold copies
    thread_communicator tensor = world.split(world.rank() / 2, world.rank(), "tp");
    thread_communicator data = world.split(world.rank() % 2, world.rank(), "dp");

    std::vector<float> gradient(1000, 1.0f), activation(64, 2.0f);
    thread_handle reduced = data.all_reduce_async(std::span(gradient));  // runs beside what follows
    tensor.all_reduce(std::span(activation));
    reduced.wait();  // until here `gradient` is not ours

    if (gradient[0] == 2.0f && activation[0] == 4.0f) ++right;
  });
  // [/communicate]
  CHECK(right == 4);
}

}  // namespace threads_test
