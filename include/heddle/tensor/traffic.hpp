// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/comm/operation.hpp>
#include <heddle/comm/traffic.hpp>
#include <heddle/layout/redistribution.hpp>

namespace heddle {

/// What one rank sends: calls and bytes per mesh axis and operation. Built by the same walk that executes, so that the
/// constants of a plan equal the communicator's counters.
struct traffic_table {
  struct entry {
    std::size_t calls = 0;
    std::size_t bytes = 0;
    friend constexpr bool operator==(entry const&, entry const&) = default;
  };
  std::array<std::array<entry, comm::operation_count>, max_axes> at{};

  [[nodiscard]] constexpr entry const& of(std::size_t axis, comm::operation op) const {
    return at[axis][static_cast<std::size_t>(op)];
  }
  constexpr void add(std::size_t axis, comm::operation op, std::size_t calls, std::size_t bytes) {
    entry& e = at[axis][static_cast<std::size_t>(op)];
    e.calls += calls;
    e.bytes += bytes;
  }
  /// `times` repetitions of what `other` counted.
  constexpr void add(traffic_table const& other, std::size_t times = 1) {
    for (std::size_t a = 0; a < max_axes; ++a)
      for (std::size_t k = 0; k < comm::operation_count; ++k) {
        at[a][k].calls += other.at[a][k].calls * times;
        at[a][k].bytes += other.at[a][k].bytes * times;
      }
  }
  [[nodiscard]] constexpr std::size_t bytes() const {
    std::size_t total = 0;
    for (auto const& axis : at)
      for (auto const& e : axis) total += e.bytes;
    return total;
  }
  friend constexpr bool operator==(traffic_table const&, traffic_table const&) = default;
};

/// The operation that executes a step that communicates.
constexpr comm::operation operation_of(step_kind kind) {
  switch (kind) {
    case step_kind::reduce_scatter:
      return comm::operation::reduce_scatter;
    case step_kind::all_to_all:
      return comm::operation::all_to_all;
    case step_kind::all_gather:
      return comm::operation::all_gather;
    default:
      return comm::operation::all_reduce;
  }
}

/// Elements that rank `rank` of `ways` sends in a step that moves `whole` elements, counted on the longer side.
constexpr std::size_t elements_sent(step_kind kind, std::size_t whole, std::size_t ways, std::size_t rank) {
  switch (kind) {
    case step_kind::slice:
      return 0;
    case step_kind::reduce_scatter:
      return comm::reduce_scatter_sent(whole, ways, rank);
    case step_kind::all_to_all:
      return comm::all_to_all_sent(whole, ways);
    case step_kind::all_gather:
      return comm::all_gather_sent(whole, ways, rank);
    default:
      return comm::all_reduce_sent(whole, ways, rank);
  }
}

/// Adds what the rank at `at` sends when `path` is executed on elements of type T.
template <class T>
constexpr void count_redistribution(traffic_table& table, mesh_value const& mesh, coordinates const& at,
                                    redistribution const& path) {
  for (std::size_t i = 0; i < path.count; ++i) {
    auto const& s = path.step[i];
    if (s.kind == step_kind::slice) continue;
    std::size_t const ways = mesh.axis[s.axis].size;
    table.add(s.axis, operation_of(s.kind), 1,
              elements_sent(s.kind, size_moved(path, s, ways), ways, at[s.axis]) * sizeof(T));
  }
}

/// Adds an all-reduce of `count` elements over each axis of the bit set `axes` in turn.
template <class T>
constexpr void count_reduction(traffic_table& table, mesh_value const& mesh, coordinates const& at, unsigned axes,
                               std::size_t count) {
  for (std::size_t a = 0; a != mesh.axes; ++a)
    if ((axes >> a & 1U) != 0)
      table.add(a, comm::operation::all_reduce, 1, comm::all_reduce_sent(count, mesh.axis[a].size, at[a]) * sizeof(T));
}

}  // namespace heddle
