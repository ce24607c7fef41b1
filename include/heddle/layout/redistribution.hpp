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

/// The local elements after step `s` on an axis of `ways` ranks.
constexpr std::size_t size_after(redistribution const& path, redistribution_step const& s, std::size_t ways) {
  std::size_t const n = size_before(path, s);
  switch (s.kind) {
    case step_kind::slice:
    case step_kind::reduce_scatter:
      return n / ways;
    case step_kind::all_gather:
      return n * ways;
    default:
      return n;
  }
}

namespace detail {

/// Elements each rank sends in a step, by ring-equal volumes (`comm/traffic.hpp` has the exact count per rank).
constexpr std::size_t step_cost(step_kind kind, std::size_t local, std::size_t ways) {
  switch (kind) {
    case step_kind::slice:
      return 0;
    case step_kind::all_reduce:
      return 2 * (local - local / ways);
    case step_kind::all_gather:
      return local * (ways - 1);
    default:
      return local - local / ways;
  }
}

/// The single step that changes axis `a` alone, where it is the least significant axis of its dimension before and
/// after: then no other path is cheaper. False where it is not so simple.
constexpr bool one_step(mesh_value const& mesh, dimension_list const& dims, layout const& from, layout const& to,
                        std::size_t a, redistribution& path) {
  if (to.is_partial(a) || (from.is_split(a) && !from.is_minor(a)) || (to.is_split(a) && !to.is_minor(a))) return false;
  redistribution_step s{};
  s.axis = static_cast<std::uint8_t>(a);
  s.extent = local_extents(mesh, dims, from);
  if (from.is_split(a)) s.from = static_cast<std::uint8_t>(dims.index_of(from.axis[a].dim));
  if (to.is_split(a)) {
    s.to = static_cast<std::uint8_t>(dims.index_of(to.axis[a].dim));
    if (s.to == dims.rank || s.extent[s.to] % mesh.axis[a].size != 0) return false;
    s.kind = from.is_partial(a) ? step_kind::reduce_scatter
             : from.is_split(a) ? step_kind::all_to_all
                                : step_kind::slice;
  } else {
    s.kind = from.is_partial(a) ? step_kind::all_reduce : step_kind::all_gather;
  }
  path.exists = true;
  path.count = 1;
  path.step[0] = s;
  path.cost = step_cost(s.kind, path.from_size, mesh.axis[a].size);
  return true;
}

/// Uniform-cost search over the layouts reachable by the named steps. Only axes that matter are moved: those whose
/// placement differs, and those that share a dimension with one of them (which may stand in its way). `Capacity` bounds
/// the layouts looked at: constant evaluation pays for every one of them, used or not.
template <std::size_t Capacity>
class path_search {
 public:
  constexpr path_search(mesh_value const& mesh, dimension_list const& dims, layout const& from, layout const& to)
      : mesh_(mesh), dims_(dims), from_(from), to_(to) {}

  constexpr redistribution run() {
    redistribution path{};
    path.rank = dims_.rank;
    path.from_size = local_size(mesh_, dims_, from_);
    path.to_size = local_size(mesh_, dims_, to_);
    choose_axes();
    add({from_, 0, 0, none, {}, false});
    for (;;) {
      std::size_t const n = cheapest();
      if (n == none) return path;
      node_[n].done = true;
      if (node_[n].at == to_) {
        trace(path, n);
        return path;
      }
      expand(n);
    }
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct node {
    layout at{};
    std::size_t cost = 0;
    std::size_t steps = 0;
    std::size_t parent = none;
    redistribution_step by{};
    bool done = false;
  };

  constexpr void choose_axes() {
    for (std::size_t a = 0; a < mesh_.axes; ++a) moves_[a] = !(from_.axis[a] == to_.axis[a]);
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t a = 0; a < mesh_.axes; ++a)
        for (std::size_t b = 0; b < mesh_.axes && !moves_[a]; ++b)
          if (moves_[b] && shares(a, b)) moves_[a] = grown = true;
    }
  }
  [[nodiscard]] constexpr bool shares(std::size_t a, std::size_t b) const {
    for (layout const* x : {&from_, &to_})
      for (layout const* y : {&from_, &to_})
        if (x->is_split(a) && y->is_split(b) && x->axis[a].dim == y->axis[b].dim) return true;
    return false;
  }

  [[nodiscard]] constexpr std::size_t cheapest() const {
    std::size_t best = none;
    for (std::size_t n = 0; n < count_; ++n)
      if (!node_[n].done && (best == none || node_[n].cost < node_[best].cost ||
                             (node_[n].cost == node_[best].cost && node_[n].steps < node_[best].steps)))
        best = n;
    return best;
  }

  constexpr void add(node const& next) {
    for (std::size_t n = 0; n < count_; ++n) {
      if (!(node_[n].at == next.at)) continue;
      bool const better = next.cost < node_[n].cost || (next.cost == node_[n].cost && next.steps < node_[n].steps);
      if (better && !node_[n].done) node_[n] = next;
      return;
    }
    if (count_ < Capacity) node_[count_++] = next;
  }

  constexpr void move(std::size_t n, step_kind kind, std::size_t a, std::size_t from, std::size_t to) {
    node next{node_[n].at, 0, node_[n].steps + 1, n, {}, false};
    next.by.kind = kind;
    next.by.axis = static_cast<std::uint8_t>(a);
    next.by.from = static_cast<std::uint8_t>(from);
    next.by.to = static_cast<std::uint8_t>(to);
    next.by.extent = local_extents(mesh_, dims_, node_[n].at);
    std::size_t const ways = mesh_.axis[a].size;
    next.at.replicate(a);
    if (kind == step_kind::slice || kind == step_kind::reduce_scatter || kind == step_kind::all_to_all) {
      if (next.by.extent[to] % ways != 0) return;
      next.at.split(a, dims_.dim[to].name);
    }
    next.cost = node_[n].cost + step_cost(kind, local_size(mesh_, dims_, node_[n].at), ways);
    add(next);
  }

  constexpr void expand(std::size_t n) {
    layout const at = node_[n].at;
    for (std::size_t a = 0; a < mesh_.axes; ++a) {
      if (!moves_[a]) continue;
      if (at.is_partial(a)) {
        move(n, step_kind::all_reduce, a, 0, 0);
        for (std::size_t k = 0; k < dims_.rank; ++k) move(n, step_kind::reduce_scatter, a, 0, k);
      } else if (!at.is_split(a)) {
        for (std::size_t k = 0; k < dims_.rank; ++k) move(n, step_kind::slice, a, 0, k);
      } else if (at.is_minor(a)) {
        std::size_t const from = dims_.index_of(at.axis[a].dim);
        move(n, step_kind::all_gather, a, from, 0);
        for (std::size_t k = 0; k < dims_.rank; ++k)
          if (k != from) move(n, step_kind::all_to_all, a, from, k);
      }
    }
  }

  constexpr void trace(redistribution& path, std::size_t n) const {
    path.exists = true;
    path.cost = node_[n].cost;
    path.count = node_[n].steps;
    for (std::size_t i = path.count; i-- > 0; n = node_[n].parent) path.step[i] = node_[n].by;
  }

  mesh_value mesh_;
  dimension_list dims_;
  layout from_, to_;
  std::array<bool, max_axes> moves_{};
  std::array<node, Capacity> node_{};
  std::size_t count_ = 0;
};

}  // namespace detail

/// The path of fewest elements sent (then fewest steps) from one layout of a tensor to another. `exists` is false where
/// there is none: to become partial, or to split a stored size that does not divide.
///
/// **Moves.** Per step: slice nothing; all-gather (n−1)·local; reduce-scatter and all-to-all (n−1)/n·local; all-reduce
/// 2(n−1)/n·local. **Laws** (tests/laws): the path ends where it should; A→B→A is the identity where nothing was
/// partial; the backward of A→B is cotangent(B)→cotangent(A).
constexpr redistribution find_redistribution(mesh_value const& mesh, dimension_list const& dims, layout const& from,
                                             layout const& to) {
  redistribution path{};
  path.rank = dims.rank;
  path.from_size = local_size(mesh, dims, from);
  path.to_size = local_size(mesh, dims, to);
  std::size_t differing = 0, a = 0;
  for (std::size_t b = 0; b < mesh.axes; ++b)
    if (!(from.axis[b] == to.axis[b])) {
      ++differing;
      a = b;
    }
  path.exists = differing == 0;
  if (differing == 0 || (differing == 1 && detail::one_step(mesh, dims, from, to, a, path))) return path;
  return differing <= 2 ? detail::path_search<96>(mesh, dims, from, to).run()
                        : detail::path_search<512>(mesh, dims, from, to).run();
}

/// Scratch elements that executing `path` needs beside its input and output: values between steps, and one packed copy
/// for steps on a dimension that is not the outermost.
constexpr std::size_t redistribution_scratch(mesh_value const& mesh, redistribution const& path) {
  std::size_t between = 0, packed = 0;
  for (std::size_t i = 0; i < path.count; ++i) {
    auto const& s = path.step[i];
    std::size_t const before = size_before(path, s);
    std::size_t const after = size_after(path, s, mesh.axis[s.axis].size);
    if (i + 1 < path.count && after > between) between = after;
    std::size_t const larger = before > after ? before : after;
    if (s.kind != step_kind::slice && s.kind != step_kind::all_reduce && larger > packed) packed = larger;
  }
  return (path.count > 1 ? 2 * between : 0) + (packed == 0 ? 0 : 2 * packed);
}

}  // namespace heddle
