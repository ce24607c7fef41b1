// SPDX-License-Identifier: Apache-2.0
#pragma once
// What collectives and transfers come to, on ranks of any kind.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "ranks.hpp"

namespace heddle::testing {

/// Whole numbers, so that every sum is exact.
template <class T>
std::vector<T> whole_values(std::size_t rank, std::size_t count) {
  std::vector<T> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = static_cast<T>((rank + 2) * (i % 5 + 1) % 13);
  return v;
}

template <class T>
std::vector<T> joined_values(comm::reduction how, std::size_t ranks, std::size_t count) {
  std::vector<T> result = whole_values<T>(0, count);
  for (std::size_t r = 1; r < ranks; ++r) {
    std::vector<T> const next = whole_values<T>(r, count);
    for (std::size_t i = 0; i < count; ++i) {
      if (how == comm::reduction::sum) result[i] = static_cast<T>(result[i] + next[i]);
      if (how == comm::reduction::max && next[i] > result[i]) result[i] = next[i];
      if (how == comm::reduction::min && next[i] < result[i]) result[i] = next[i];
    }
  }
  return result;
}

template <class T>
std::vector<T> chunk_of(std::vector<T> const& whole, std::size_t ranks, std::size_t rank) {
  auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(comm::chunk_begin(whole.size(), ranks, rank));
  return {begin, begin + static_cast<std::ptrdiff_t>(comm::chunk_count(whole.size(), ranks, rank))};
}
/// `whole` with nothing but this rank's chunk.
template <class T>
std::vector<T> chunk_alone(std::vector<T> const& whole, std::size_t ranks, std::size_t rank) {
  std::vector<T> out(whole.size());
  std::vector<T> const chunk = chunk_of(whole, ranks, rank);
  std::copy(chunk.begin(), chunk.end(),
            out.begin() + static_cast<std::ptrdiff_t>(comm::chunk_begin(whole.size(), ranks, rank)));
  return out;
}

/// A value that is cut into pieces, one of them empty, reduces as it does in one.
template <class Ranks, class T>
void check_pieces(typename Ranks::communicator& world, std::vector<T> const& value, comm::reduction how,
                  std::vector<T> const& expected, std::atomic<int>& wrong) {
  auto const cut = static_cast<std::ptrdiff_t>(value.size() / 3);
  array<Ranks, T> const head(std::vector<T>(value.begin(), value.begin() + cut)),
      tail(std::vector<T>(value.begin() + cut, value.end()));
  std::array<std::span<T>, 3> const list{head.span(), std::span<T>(), tail.span()};
  world.all_reduce(comm::pieces(list), how);
  std::vector<T> all = head.values();
  std::vector<T> const rest = tail.values();
  all.insert(all.end(), rest.begin(), rest.end());
  if (all != expected) ++wrong;
}
template <class Ranks, class T>
void check_chunk_in_pieces(typename Ranks::communicator& world, std::span<T const> in, comm::reduction how,
                           std::vector<T> const& chunk, std::atomic<int>& wrong) {
  // Of other sizes than on other ranks, and one is empty.
  std::size_t const cut = chunk.size() * world.rank() / world.size();
  array<Ranks, T> const head(cut), tail(chunk.size() - cut);
  std::array<std::span<T>, 2> const list{head.span(), tail.span()};
  auto under_way = world.reduce_scatter_async(in, comm::pieces(list), how);
  under_way.wait();
  std::vector<T> all = head.values();
  std::vector<T> const rest = tail.values();
  all.insert(all.end(), rest.begin(), rest.end());
  if (all != chunk) ++wrong;
}

template <class Ranks, class T>
void check_reductions_and_gathers(std::size_t ranks, std::vector<std::size_t> const& counts) {
  using array_of = array<Ranks, T>;
  std::atomic<int> wrong{0};
  Ranks::run(ranks, [&](typename Ranks::communicator& world) {
    using comm::chunk_begin;
    using comm::chunk_count;
    std::size_t const r = world.rank();
    for (std::size_t const count : counts) {
      auto const chunk_in = [&](array_of const& all) {
        return all.span().subspan(chunk_begin(count, ranks, r), chunk_count(count, ranks, r));
      };
      for (comm::reduction const how : {comm::reduction::sum, comm::reduction::max, comm::reduction::min}) {
        std::vector<T> const expected = joined_values<T>(how, ranks, count);
        array_of const data(whole_values<T>(r, count));
        world.all_reduce(data.span(), how);
        if (data.values() != expected) ++wrong;

        array_of const in(whole_values<T>(r, count));
        array_of const out(chunk_count(count, ranks, r));
        world.reduce_scatter(in.read(), out.span(), how);
        if (out.values() != chunk_of(expected, ranks, r)) ++wrong;

        world.reduce_scatter(in.read(), chunk_in(in), how);  // in place: out is this rank's chunk of in
        if (chunk_of(in.values(), ranks, r) != out.values()) ++wrong;

        if constexpr (comm::ReducesPieces<typename Ranks::communicator>) {
          array_of const again(whole_values<T>(r, count));
          check_pieces<Ranks, T>(world, again.values(), how, expected, wrong);
          check_chunk_in_pieces<Ranks, T>(world, again.read(), how, out.values(), wrong);
        }
      }
      std::vector<T> const whole = whole_values<T>(3, count);
      array_of const mine(chunk_of(whole, ranks, r)), gathered(count);
      world.all_gather(mine.read(), gathered.span());
      if (gathered.values() != whole) ++wrong;

      array_of const in_place(chunk_alone(whole, ranks, r));
      world.all_gather(std::span<T const>(chunk_in(in_place)), in_place.span());
      if (in_place.values() != whole) ++wrong;

      // Several at once: this one, one in place, one of another length, one of nothing.
      std::vector<T> const whole_2 = whole_values<T>(5, 2 * count + 1);
      array_of const mine_2(chunk_of(whole_2, ranks, r)), first(count), second(chunk_alone(whole, ranks, r)),
          third(whole_2.size());
      std::array<comm::gather_part<T>, 4> const parts{
          {{mine.read(), first.span()}, {chunk_in(second), second.span()}, {mine_2.read(), third.span()}, {}}};
      world.all_gather(comm::gather_parts(parts));
      if (first.values() != whole || second.values() != whole || third.values() != whole_2) ++wrong;
      world.all_gather(comm::gather_parts<T>());
      if constexpr (comm::GathersRows<typename Ranks::communicator>) {
        // Three rows, of each of which every rank has a piece; beside it one that has no rows.
        std::vector<T> const rows = whole_values<T>(7, 3 * ranks * count);
        std::vector<T> pieces;
        for (std::size_t row = 0; row < 3; ++row)
          for (std::size_t i = 0; i < count; ++i) pieces.push_back(rows[(row * ranks + r) * count + i]);
        array_of const of_rows(pieces), all_rows(rows.size()), plain(count);
        std::array<comm::gather_part<T>, 2> const both{
            {{of_rows.read(), all_rows.span(), 3}, {mine.read(), plain.span()}}};
        world.all_gather(comm::gather_parts(both));
        if (all_rows.values() != rows || plain.values() != whole) ++wrong;
      }

      for (std::size_t root = 0; root < ranks; ++root) {
        array_of const data(whole_values<T>(r, count));
        world.broadcast(data.span(), root);
        if (data.values() != whole_values<T>(root, count)) ++wrong;
      }
    }
  });
  CHECK(wrong == 0);
}

template <class Ranks>
void check_all_to_all(std::size_t ranks, std::size_t largest) {
  using array_of = array<Ranks, std::int32_t>;
  std::atomic<int> wrong{0};
  Ranks::run(ranks, [&](typename Ranks::communicator& world) {
    std::size_t const r = world.rank();
    for (std::size_t const block : {std::size_t{0}, std::size_t{1}, std::size_t{5}, largest}) {
      std::vector<std::int32_t> from(ranks * block);
      for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::int32_t>(r * 100000 + i);
      array_of const in(from), out(ranks * block);
      world.all_to_all(in.read(), out.span());
      std::vector<std::int32_t> const got = out.values();
      for (std::size_t q = 0; q < ranks; ++q)
        for (std::size_t i = 0; i < block; ++i)
          if (got[q * block + i] != static_cast<std::int32_t>(q * 100000 + r * block + i)) ++wrong;
    }
    // rank r sends (r + q) % 3 elements of value 10 r + q to rank q, nothing to some
    std::vector<std::size_t> to(ranks), from(ranks);
    std::vector<std::int32_t> given, expected;
    for (std::size_t q = 0; q < ranks; ++q) {
      to[q] = from[q] = (r + q) % 3;
      given.insert(given.end(), to[q], static_cast<std::int32_t>(10 * r + q));
      expected.insert(expected.end(), from[q], static_cast<std::int32_t>(10 * q + r));
    }
    array_of const in(given), out(expected.size());
    world.all_to_all(in.read(), to, out.span(), from);
    if (out.values() != expected) ++wrong;
  });
  CHECK(wrong == 0);
}

/// In the order of the ranks, the same bits everywhere and every time.
template <class Ranks>
void check_order_of_reductions(std::size_t count, int times) {
  // Floats near 1e8 are 8 apart. In the order of the ranks the sum is 0.5; backwards, from any other rank on, or in
  // pairs it is 0, 1 or 1.5.
  std::array<float, 4> const parts{1.0f, 1e8f, -1e8f, 0.5f};
  for (int round = 0; round < times; ++round) {
    std::array<std::vector<float>, 4> result;
    Ranks::run(4, [&](typename Ranks::communicator& world) {
      array<Ranks, float> const data(count, parts[world.rank()]);
      world.all_reduce(data.span());
      result[world.rank()] = data.values();
    });
    std::vector<float> const expected(count, 0.5f);
    for (auto const& one : result) CHECK(std::memcmp(one.data(), expected.data(), count * sizeof(float)) == 0);
  }
}

template <class Ranks>
void check_nan_is_kept() {
  for (std::size_t bad = 0; bad < 3; ++bad) {
    std::atomic<int> kept{0};
    Ranks::run(3, [&](typename Ranks::communicator& world) {
      std::vector<float> const own{1.0f, world.rank() == bad ? std::numeric_limits<float>::quiet_NaN() : 2.0f};
      array<Ranks, float> const data(own), other(own);
      world.all_reduce(data.span(), comm::reduction::max);
      world.all_reduce(other.span(), comm::reduction::min);
      if (std::isnan(data.values()[1]) && std::isnan(other.values()[1]) && data.first() == 1.0f) ++kept;
    });
    CHECK(kept == 3);
  }
}

/// Of one pair, in both directions, whoever comes first.
template <class Ranks>
void check_transfers_in_order() {
  std::atomic<int> wrong{0};
  Ranks::run(2, [&](typename Ranks::communicator& world) {
    std::size_t const peer = 1 - world.rank();
    array<Ranks, int> const out(3), in(3);
    for (int i = 0; i < Ranks::rounds; ++i) {
      out.set({i, i + 1, static_cast<int>(world.rank())});
      if (world.rank() == 0) {
        world.send(out.span(), peer);
        world.receive(in.span(), peer);
      } else {
        world.receive(in.span(), peer);
        world.send(out.span(), peer);
      }
      if (in.values() != std::vector<int>{i, i + 1, static_cast<int>(peer)}) ++wrong;
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

template <class Ranks>
void check_split() {
  using communicator = typename Ranks::communicator;
  std::atomic<int> wrong{0};
  Ranks::run(6, [&](communicator& world) {
    communicator rows = world.split(world.rank() / 3, 10 - world.rank(), "row");
    if (rows.size() != 3 || rows.rank() != 2 - world.rank() % 3 || rows.name() != "row") ++wrong;
    array<Ranks, int> const member(1, static_cast<int>(world.rank())), all(3);
    rows.all_gather(member.read(), all.span());
    int const first = static_cast<int>(world.rank() / 3 * 3);
    if (all.values() != std::vector<int>{first + 2, first + 1, first}) ++wrong;
    communicator alone = rows.split(rows.rank(), 0);
    if (alone.size() != 1 || alone.name() != "row" || alone.world_rank() != world.rank()) ++wrong;
    alone.all_reduce(member.span());
    alone.barrier();
    if (member.first() != static_cast<int>(world.rank())) ++wrong;
  });
  CHECK(wrong == 0);
}

template <class Ranks>
void check_subset() {
  using communicator = typename Ranks::communicator;
  std::atomic<int> wrong{0};
  Ranks::run(5, [&](communicator& world) {
    std::array<std::size_t, 3> const list{4, 0, 2};
    if (world.rank() % 2 == 1) return;
    communicator first = world.subset(list, "even");
    communicator second = world.subset(list, "even");
    std::array<std::size_t, 3> const position{1, 2, 0};
    if (first.rank() != position[world.rank() / 2] || first.size() != 3 || first.name() != "even") ++wrong;
    array<Ranks, int> const data(1, 1);
    first.all_reduce(data.span());
    second.all_reduce(data.span());
    second.broadcast(data.span(), 1);
    if (data.first() != 9) ++wrong;
  });
  CHECK(wrong == 0);
}

/// Two host threads of each rank use groups of their own (known-faults NC-3).
template <class Ranks>
void check_two_threads_of_a_rank(int times) {
  using communicator = typename Ranks::communicator;
  std::atomic<int> wrong{0};
  Ranks::run(2, [&](communicator& world) {
    communicator tensor = world.split(0, world.rank(), "tp");
    communicator data = world.split(0, world.rank(), "dp");
    auto const rounds = [&](communicator& group, int add) {
      array<Ranks, int> const sum(2);
      for (int i = 0; i < times; ++i) {
        sum.set({i, add});
        group.all_reduce(sum.span());
        if (sum.values() != std::vector<int>{2 * i, 2 * add}) ++wrong;
      }
    };
    std::thread other = Ranks::thread([&] { rounds(data, 1); });
    rounds(tensor, 2);
    other.join();
  });
  CHECK(wrong == 0);
}

}  // namespace heddle::testing
