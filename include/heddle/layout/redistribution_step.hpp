// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/layout.hpp>

namespace heddle {

/// The named steps that every redistribution is composed of. Each concerns one axis.
enum class step_kind : std::uint8_t {
  slice,           ///< replicated → split(to): every rank keeps its block; nothing moves
  reduce_scatter,  ///< partial → split(to)
  all_to_all,      ///< split(from) → split(to)
  all_gather,      ///< split(from) → replicated
  all_reduce       ///< partial → replicated
};

/// One step of a path. Dimensions are positions in the tensor's shape; `extent` is the local shape before the step.
struct redistribution_step {
  step_kind kind = step_kind::slice;
  std::uint8_t axis = 0;
  std::uint8_t from = 0;
  std::uint8_t to = 0;
  std::array<std::size_t, max_rank> extent{};
  std::size_t gathered = 0;  ///< of an all-gather: the extent of `from` afterwards, without what was padding
};

/// The most steps a path can have. Each axis needs at most two; shortest paths of real plans have one or two in all.
inline constexpr std::size_t max_steps = 2 * max_axes;

/// How a tensor gets from one layout to another: named steps, one axis at a time, found at compile time.
struct redistribution {
  bool exists = false;  ///< a value cannot become partial, nor split where its stored size does not divide
  std::size_t rank = 0;
  std::size_t count = 0;
  std::array<redistribution_step, max_steps> step{};
  std::size_t from_size = 0;  ///< local elements before
  std::size_t to_size = 0;    ///< local elements after
  std::size_t cost = 0;       ///< elements each rank sends, up to the rounding of uneven chunks

  /// Nothing to do: the value lies as wanted.
  [[nodiscard]] constexpr bool empty() const { return exists && count == 0; }
};

/// The local elements before step `s`.
constexpr std::size_t size_before(redistribution const& path, redistribution_step const& s) {
  std::size_t n = 1;
  for (std::size_t k = 0; k < path.rank; ++k) n *= s.extent[k];
  return n;
}

/// The local shape after step `s` on an axis of `ways` ranks.
constexpr std::array<std::size_t, max_rank> extents_after(redistribution_step const& s, std::size_t ways) {
  auto extent = s.extent;
  if (s.kind == step_kind::all_gather) extent[s.from] = s.gathered;
  if (s.kind == step_kind::all_to_all) extent[s.from] *= ways;
  if (s.kind == step_kind::slice || s.kind == step_kind::reduce_scatter || s.kind == step_kind::all_to_all)
    extent[s.to] = block_extent(extent[s.to], ways);
  return extent;
}

/// The local elements after step `s` on an axis of `ways` ranks.
constexpr std::size_t size_after(redistribution const& path, redistribution_step const& s, std::size_t ways) {
  auto const extent = extents_after(s, ways);
  std::size_t n = 1;
  for (std::size_t k = 0; k < path.rank; ++k) n *= extent[k];
  return n;
}

/// Elements that step `s` passes to its collective, padding included: of the whole, that is of the longer side.
constexpr std::size_t size_moved(redistribution const& path, redistribution_step const& s, std::size_t ways) {
  switch (s.kind) {
    case step_kind::reduce_scatter:
      return ways * size_after(path, s, ways);
    case step_kind::all_gather:
      return ways * size_before(path, s);
    default:
      return size_before(path, s);
  }
}

namespace detail {

/// Elements each rank sends in a step, by ring-equal volumes (`comm/traffic.hpp` has the exact count per rank): of
/// `before` local elements, that are `after` afterwards.
constexpr std::size_t step_cost(step_kind kind, std::size_t before, std::size_t after, std::size_t ways) {
  switch (kind) {
    case step_kind::slice:
      return 0;
    case step_kind::all_reduce:
      return 2 * (before - before / ways);
    case step_kind::all_gather:
      return before * (ways - 1);
    case step_kind::reduce_scatter:
      return after * (ways - 1);
    default:
      return before - before / ways;
  }
}

}  // namespace detail

}  // namespace heddle
