// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/redistribution_step.hpp>

namespace heddle::detail {

/// The single step that changes axis `a` alone, where it is the least significant axis of its dimension before and
/// after: then no other path is cheaper. False where it is not so simple.
constexpr bool one_step(mesh_value const& mesh, dimension_list const& dims, layout const& from, layout const& to,
                        std::size_t a, redistribution& path) {
  if ((from.is_split(a) && !from.is_minor(a)) || (to.is_split(a) && !to.is_minor(a))) return false;
  if (from.is_split(a) && to.is_split(a) && (from.axis[a].padded || to.axis[a].padded)) return false;
  redistribution_step s{};
  s.axis = static_cast<std::uint8_t>(a);
  s.extent = local_extents(mesh, dims, from);
  if (from.is_split(a)) {
    s.from = static_cast<std::uint8_t>(dims.index_of(from.axis[a].dim));
    s.gathered = local_extents(mesh, dims, to)[s.from];
  }
  if (to.is_split(a)) {
    s.to = static_cast<std::uint8_t>(dims.index_of(to.axis[a].dim));
    s.kind = from.is_partial(a) ? step_kind::reduce_scatter
             : from.is_split(a) ? step_kind::all_to_all
                                : step_kind::slice;
  } else {
    s.kind = from.is_partial(a) ? step_kind::all_reduce : step_kind::all_gather;
  }
  path.exists = true;
  path.count = 1;
  path.step[0] = s;
  path.cost = step_cost(s.kind, path.from_size, path.to_size, mesh.axis[a].size);
  return true;
}

/// A layout of a known mesh and shape in one word, a byte per axis: 0 replicated, 1 partial, else 2 + 8·dimension +
/// order, and 128 more where it may pad. Constant evaluation compares and stores words far faster than layouts.
class packed_layout {
 public:
  constexpr packed_layout() = default;
  constexpr packed_layout(dimension_list const& dims, layout const& l) {
    for (std::size_t a = 0; a < max_axes; ++a) {
      if (l.is_partial(a)) put(a, 1);
      if (l.is_split(a)) put_split(a, dims.index_of(l.axis[a].dim), l.axis[a].order, l.axis[a].padded);
    }
  }
  [[nodiscard]] constexpr std::size_t get(std::size_t a) const { return word_ >> (8 * a) & 255U; }
  [[nodiscard]] constexpr bool is_split(std::size_t a) const { return get(a) >= 2; }
  [[nodiscard]] constexpr bool is_padded(std::size_t a) const { return get(a) >= 128; }
  [[nodiscard]] constexpr std::size_t dim(std::size_t a) const { return (get(a) % 128 - 2) / 8; }
  [[nodiscard]] constexpr std::size_t order(std::size_t a) const { return (get(a) % 128 - 2) % 8; }
  [[nodiscard]] constexpr std::size_t splits(std::size_t axes, std::size_t k) const {
    std::size_t n = 0;
    for (std::size_t a = 0; a < axes; ++a) n += is_split(a) && dim(a) == k ? 1 : 0;
    return n;
  }
  constexpr void put(std::size_t a, std::size_t byte) {
    word_ = (word_ & ~(std::uint64_t{255} << (8 * a))) | std::uint64_t{byte} << (8 * a);
  }
  constexpr void put_split(std::size_t a, std::size_t k, std::size_t order, bool padded) {
    put(a, 2 + 8 * k + order + (padded ? 128 : 0));
  }
  [[nodiscard]] constexpr std::uint64_t word() const { return word_; }

 private:
  std::uint64_t word_ = 0;
};

/// The extents of a rank's part under a packed layout.
constexpr std::array<std::size_t, max_rank> packed_extents(mesh_value const& mesh, dimension_list const& dims,
                                                           packed_layout at) {
  std::array<std::size_t, max_rank> extent{};
  for (std::size_t k = 0; k < dims.rank; ++k) extent[k] = dims.dim[k].stored;
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (at.is_split(a)) extent[at.dim(a)] = block_extent(extent[at.dim(a)], mesh.axis[a].size);
  return extent;
}

/// Uniform-cost search over the layouts reachable by the named steps. Only axes that matter are moved: those whose
/// placement differs, and those that share a dimension with one of them (which may stand in its way). `Capacity` bounds
/// the layouts looked at: constant evaluation pays for every one of them, used or not.
template <std::size_t Capacity>
class path_search {
 public:
  constexpr path_search(mesh_value const& mesh, dimension_list const& dims, layout const& from, layout const& to)
      : mesh_(mesh), dims_(dims), from_(dims, from), to_(dims, to) {}

  /// Fills in the path; false where there were more layouts than capacity and a cheaper path may have been lost.
  constexpr bool run(redistribution& path) {
    choose_axes();
    std::size_t moving = 0;
    for (bool m : moves_) moving += m ? 1 : 0;
    if (moving > most_searched) return false;
    add({from_, 0, 0, none, {}, false});
    for (;;) {
      std::size_t const n = cheapest();
      if (n == none) return false;
      if (node_[n].cost > lost_) return false;
      node_[n].done = true;
      if (node_[n].at.word() == to_.word()) {
        trace(path, n);
        return true;
      }
      expand(n);
    }
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  /// With more axes on the move, the layouts are more than a compiler will look at.
  static constexpr std::size_t most_searched = 3;
  struct step_taken {
    step_kind kind = step_kind::slice;
    std::uint8_t axis = 0, from = 0, to = 0;
  };
  struct node {
    packed_layout at{};
    std::size_t cost = 0;
    std::size_t steps = 0;
    std::size_t parent = none;
    step_taken by{};
    bool done = false;
  };

  constexpr void choose_axes() {
    for (std::size_t a = 0; a < mesh_.axes; ++a) moves_[a] = from_.get(a) != to_.get(a);
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t a = 0; a < mesh_.axes; ++a)
        for (std::size_t b = 0; b < mesh_.axes && !moves_[a]; ++b)
          if (moves_[b] && shares(a, b)) moves_[a] = grown = true;
    }
  }
  [[nodiscard]] constexpr bool shares(std::size_t a, std::size_t b) const {
    for (packed_layout const* x : {&from_, &to_})
      for (packed_layout const* y : {&from_, &to_})
        if (x->is_split(a) && y->is_split(b) && x->dim(a) == y->dim(b)) return true;
    return false;
  }

  /// The open node of least cost, then of fewest steps.
  [[nodiscard]] constexpr std::size_t cheapest() const {
    std::size_t best = none;
    for (std::size_t n = 0; n < count_; ++n)
      if (!node_[n].done && (best == none || node_[n].cost < node_[best].cost ||
                             (node_[n].cost == node_[best].cost && node_[n].steps < node_[best].steps)))
        best = n;
    return best;
  }

  constexpr void add(node const& next) {
    // Open addressing; a slot holds 1 + the node's number.
    std::size_t at = static_cast<std::size_t>(next.at.word() * 0x9E3779B97F4A7C15U >> 32) % slots;
    while (slot_[at] != 0) {
      node& old = node_[slot_[at] - 1U];
      if (old.at.word() == next.at.word()) {
        bool const better = next.cost < old.cost || (next.cost == old.cost && next.steps < old.steps);
        if (better && !old.done) old = next;
        return;
      }
      at = (at + 1) % slots;
    }
    if (count_ == Capacity) {
      lost_ = next.cost < lost_ ? next.cost : lost_;
      return;
    }
    node_[count_] = next;
    slot_[at] = static_cast<std::uint16_t>(++count_);
  }

  constexpr void expand(std::size_t n) {
    packed_layout const at = node_[n].at;
    auto const extent = packed_extents(mesh_, dims_, at);
    std::size_t const local = product_of(extent);
    for (std::size_t a = 0; a < mesh_.axes; ++a) {
      if (!moves_[a]) continue;
      bool const partial = at.get(a) == 1;
      bool const split = at.is_split(a);
      std::size_t const from = split ? at.dim(a) : 0;
      if (split && at.order(a) + 1 != at.splits(mesh_.axes, from)) continue;  // only the minor axis can be moved
      std::size_t const ways = mesh_.axis[a].size;
      auto const move = [&](step_kind kind, std::size_t to, packed_layout next, std::size_t after) {
        add({next,
             node_[n].cost + step_cost(kind, local, after, ways),
             node_[n].steps + 1,
             n,
             {kind, static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(from), static_cast<std::uint8_t>(to)},
             false});
      };
      packed_layout whole = at;
      whole.put(a, 0);
      if (partial) move(step_kind::all_reduce, 0, whole, local);
      if (split) move(step_kind::all_gather, 0, whole, local);
      // An all-to-all exchanges equal blocks of what is really there.
      if (at.is_padded(a) && packed_extents(mesh_, dims_, whole)[from] != extent[from] * ways) continue;
      step_kind const to_split = partial ? step_kind::reduce_scatter : split ? step_kind::all_to_all : step_kind::slice;
      for (std::size_t k = 0; k < dims_.rank; ++k) {
        bool const pads = to_.is_split(a) && to_.dim(a) == k && to_.is_padded(a);
        bool const fits = extent[k] % ways == 0 || (pads && !split);
        if (!fits || (split && k == from)) continue;
        packed_layout next = at;
        next.put_split(a, k, at.splits(mesh_.axes, k), pads);
        move(to_split, k, next, local / extent[k] * block_extent(extent[k], ways));
      }
    }
  }
  [[nodiscard]] constexpr std::size_t product_of(std::array<std::size_t, max_rank> const& extent) const {
    std::size_t n = 1;
    for (std::size_t k = 0; k < dims_.rank; ++k) n *= extent[k];
    return n;
  }

  constexpr void trace(redistribution& path, std::size_t n) const {
    path.exists = true;
    path.cost = node_[n].cost;
    path.count = node_[n].steps;
    for (std::size_t i = path.count; i-- > 0; n = node_[n].parent) {
      step_taken const& s = node_[n].by;
      path.step[i] = {s.kind, s.axis, s.from, s.to, packed_extents(mesh_, dims_, node_[node_[n].parent].at), 0};
      if (s.kind == step_kind::all_gather) path.step[i].gathered = packed_extents(mesh_, dims_, node_[n].at)[s.from];
    }
  }

  static constexpr std::size_t slots = 2 * Capacity + 1;
  mesh_value mesh_;
  dimension_list dims_;
  packed_layout from_, to_;
  std::array<bool, max_axes> moves_{};
  std::array<node, Capacity> node_{};
  std::array<std::uint16_t, slots> slot_{};
  std::size_t count_ = 0;
  std::size_t lost_ = none;  ///< the least cost of a node that found no room
};

/// Whether a tensor can get from one layout to the other at all: nothing becomes partial, and the stored sizes divide.
constexpr bool can_redistribute(mesh_value const& mesh, dimension_list const& dims, layout const& from,
                                layout const& to) {
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (to.is_partial(a) && !from.is_partial(a)) return false;
  for (layout const* l : {&from, &to}) {
    for (std::size_t a = 0; a < mesh.axes; ++a)
      if (l->is_split(a) && !dims.has(l->axis[a].dim)) return false;
    if (!splits_evenly(mesh, dims, *l)) return false;
  }
  return true;
}

/// The path that always exists: scatter what is pending to where it is wanted, or complete it; gather every axis that
/// differs (with those that are less significant), then slice. For redistributions of so many axes that the search
/// would look at too many layouts; of a gradient, pending over any number of data axes, it is the cheapest.
constexpr void plain_path(mesh_value const& mesh, dimension_list const& dims, layout const& from, layout const& to,
                          redistribution& path) {
  layout at = from;
  auto const take = [&](step_kind kind, std::size_t a, std::size_t k) {
    redistribution_step s{kind, static_cast<std::uint8_t>(a), 0, 0, local_extents(mesh, dims, at), 0};
    std::size_t const before = local_size(mesh, dims, at);
    if (kind == step_kind::slice || kind == step_kind::reduce_scatter) {
      s.to = static_cast<std::uint8_t>(k);
      at.split(a, dims.dim[k].name, to.axis[a].padded);
    } else {
      at.replicate(a);
    }
    if (kind == step_kind::all_gather) {
      s.from = static_cast<std::uint8_t>(k);
      s.gathered = local_extents(mesh, dims, at)[k];
    }
    path.cost += step_cost(kind, before, local_size(mesh, dims, at), mesh.axis[a].size);
    path.step[path.count++] = s;
  };
  path.exists = true;
  for (std::size_t order = 0; order < mesh.axes; ++order)
    for (std::size_t a = 0; a < mesh.axes; ++a) {
      if (!at.is_partial(a) || !to.is_split(a) || to.axis[a].order != order || at.splits(to.axis[a].dim) != order)
        continue;
      std::size_t const k = dims.index_of(to.axis[a].dim);
      // Where axes that stand in front of it are not yet as they will be, what is scattered would have to move again.
      bool settled = true;
      for (std::size_t b = 0; b < mesh.axes; ++b)
        if (at.is_split(b) && at.axis[b].dim == to.axis[a].dim && !(at.axis[b] == to.axis[b])) settled = false;
      if (settled) take(step_kind::reduce_scatter, a, k);
    }
  for (std::size_t a = 0; a < mesh.axes; ++a)
    if (at.is_partial(a) && !to.is_partial(a)) take(step_kind::all_reduce, a, 0);
  layout const settled = at;
  for (std::size_t k = 0; k < dims.rank; ++k) {
    name_id const dim = dims.dim[k].name;
    // The most significant axes that stay where they are.
    std::size_t kept = 0;
    for (bool same = true; same; kept += same ? 1 : 0) {
      same = false;
      for (std::size_t a = 0; a < mesh.axes; ++a)
        if (settled.is_split(a) && settled.axis[a].dim == dim && settled.axis[a].order == kept &&
            settled.axis[a] == to.axis[a])
          same = true;
    }
    while (at.splits(dim) > kept)
      for (std::size_t a = 0; a < mesh.axes; ++a)
        if (at.is_split(a) && at.axis[a].dim == dim && at.is_minor(a)) {
          take(step_kind::all_gather, a, k);
          break;
        }
  }
  for (std::size_t order = 0; order < mesh.axes; ++order)
    for (std::size_t a = 0; a < mesh.axes; ++a)
      if (to.is_split(a) && to.axis[a].order == order && !at.is_split(a))
        take(step_kind::slice, a, dims.index_of(to.axis[a].dim));
}

/// Layouts that the search looks at before it settles for the plain path.
inline constexpr std::size_t search_capacity = 512;

}  // namespace heddle::detail
