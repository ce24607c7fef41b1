// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/redistribution.hpp>

#include "layouts.hpp"

// Laws of redistribution paths that concern layouts alone. Each says on its own what a step does and costs.
namespace heddle::laws {

/// What an axis of `ways` ranks leaves of `extent` indices on each.
constexpr std::size_t share(std::size_t extent, std::size_t ways) { return extent / ways + (extent % ways != 0); }

/// The local extent of dimension k, each axis from the most significant cutting what is left.
struct cut_extent {
  std::size_t extent = 0;
  bool even = true;  ///< every axis divides, or may pad
};
constexpr cut_extent extent_of(mesh_value const& mesh, dimension_list const& dims, layout const& l, std::size_t k) {
  cut_extent c{dims.dim[k].stored};
  for (std::size_t order = 0; order < mesh.axes; ++order)
    for (std::size_t a = 0; a < mesh.axes; ++a)
      if (l.axis[a].kind == placement::split && l.axis[a].dim == dims.dim[k].name && l.axis[a].order == order) {
        if (!l.axis[a].padded && c.extent % mesh.axis[a].size != 0) c.even = false;
        c.extent = share(c.extent, mesh.axis[a].size);
      }
  return c;
}

constexpr std::size_t local_elements(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
  std::size_t n = 1;
  for (std::size_t k = 0; k < dims.rank; ++k) n *= extent_of(mesh, dims, l, k).extent;
  return n;
}

constexpr bool divides(mesh_value const& mesh, dimension_list const& dims, layout const& l) {
  for (std::size_t k = 0; k < dims.rank; ++k)
    if (!extent_of(mesh, dims, l, k).even) return false;
  return true;
}

/// Splits may only be changed at the least significant axis of a dimension.
constexpr bool nothing_below(layout const& l, std::size_t a) {
  for (auto const& other : l.axis)
    if (other.kind == placement::split && other.dim == l.axis[a].dim && other.order > l.axis[a].order) return false;
  return true;
}

/// What a step makes of a layout; `legal` is false where the step does not apply to it. A split that `target` has too
/// may pad if it does there; an all-to-all exchanges blocks without padding.
struct stepped {
  bool legal = false;
  layout result{};
};
constexpr stepped apply(mesh_value const& mesh, dimension_list const& dims, layout const& l,
                        redistribution_step const& s, layout const& target = {}) {
  if (s.axis >= mesh.axes) return {};
  auto const now = l.axis[s.axis].kind;
  bool const to_split =
      s.kind == step_kind::slice || s.kind == step_kind::reduce_scatter || s.kind == step_kind::all_to_all;
  placement const needs = s.kind == step_kind::slice ? placement::replicated
                          : s.kind == step_kind::reduce_scatter || s.kind == step_kind::all_reduce ? placement::partial
                                                                                                   : placement::split;
  if (now != needs) return {};
  if (needs == placement::split && (s.from >= dims.rank || dims.dim[s.from].name != l.axis[s.axis].dim)) return {};
  if (needs == placement::split && !nothing_below(l, s.axis)) return {};
  layout next = l;
  next.axis[s.axis] = {};
  if (to_split) {
    if (s.to >= dims.rank) return {};
    std::size_t order = 0;
    for (auto const& other : next.axis) order += other.kind == placement::split && other.dim == dims.dim[s.to].name;
    auto const& wanted = target.axis[s.axis];
    bool const padded = wanted.kind == placement::split && wanted.dim == dims.dim[s.to].name && wanted.padded;
    if (s.kind == step_kind::all_to_all) {
      std::size_t const ways = mesh.axis[s.axis].size, whole = extent_of(mesh, dims, next, s.from).extent;
      if (whole % ways != 0 || extent_of(mesh, dims, next, s.to).extent % ways != 0) return {};
    }
    next.axis[s.axis] = {placement::split, static_cast<std::uint8_t>(order), padded, dims.dim[s.to].name};
  }
  return {divides(mesh, dims, next), next};
}

/// Elements that each rank sends in a step over `ways` ranks on `n` local elements that become `after`.
constexpr std::size_t sent_in(step_kind kind, std::size_t n, std::size_t after, std::size_t ways) {
  std::size_t const others = ways - 1;
  if (kind == step_kind::all_gather) return others * n;
  if (kind == step_kind::reduce_scatter) return others * after;
  if (kind == step_kind::all_reduce) return 2 * (n - n / ways);
  return kind == step_kind::slice ? 0 : n - n / ways;
}

/// A path exists exactly where nothing must become partial and the sizes divide.
struct exists_where_possible {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& a, layout const& b,
                              redistribution const& path) {
    bool possible = divides(mesh, dims, a) && divides(mesh, dims, b);
    for (std::size_t x = 0; x < mesh.axes; ++x)
      if (b.axis[x].kind == placement::partial && a.axis[x].kind != placement::partial) possible = false;
    return path.exists == possible;
  }
};

/// Its steps lead from a to b, each legal where it stands, and its sizes and cost are those of its steps.
struct ends_in_target {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& a, layout const& b,
                              redistribution const& path) {
    if (!path.exists) return path.count == 0 && !path.empty();
    if (path.from_size != local_elements(mesh, dims, a) || path.to_size != local_elements(mesh, dims, b)) return false;
    layout at = a;
    std::size_t cost = 0;
    for (std::size_t i = 0; i < path.count; ++i) {
      redistribution_step const& s = path.step[i];
      std::size_t const n = local_elements(mesh, dims, at);
      if (size_before(path, s) != n) return false;
      stepped const next = apply(mesh, dims, at, s, b);
      if (!next.legal) return false;
      at = next.result;
      cost += sent_in(s.kind, n, local_elements(mesh, dims, at), mesh.axis[s.axis].size);
      if (size_after(path, s, mesh.axis[s.axis].size) != local_elements(mesh, dims, at)) return false;
    }
    return at == b && cost == path.cost;
  }
};

/// There is nothing to do exactly between a layout and itself.
struct empty_where_equal {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& a, layout const& b,
                              redistribution const& path) {
    if (!divides(mesh, dims, a)) return true;
    return path.empty() == (a == b);
  }
};

/// Where a value can go from a to b, its cotangent can come back: cotangent(b) → cotangent(a), and both are complete.
struct has_dual {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& a, layout const& b,
                              redistribution const& path) {
    if (!path.exists) return true;
    layout const from = cotangent(b), to = cotangent(a);
    return !from.has_partial() && !to.has_partial() && find_redistribution(mesh, dims, from, to).exists;
  }
};

/// The path that stands in where the search would take too long.
struct plainly {
  static constexpr redistribution find(mesh_value const& mesh, dimension_list const& dims, layout const& a,
                                       layout const& b) {
    redistribution plain{};
    if (!detail::can_redistribute(mesh, dims, a, b)) return plain;
    plain.rank = dims.rank;
    plain.from_size = local_size(mesh, dims, a);
    plain.to_size = local_size(mesh, dims, b);
    detail::plain_path(mesh, dims, a, b, plain);
    return plain;
  }
};

/// It is a path too, and no cheaper.
struct plain_path_is_a_path {
  static constexpr bool holds(mesh_value const& mesh, dimension_list const& dims, layout const& a, layout const& b,
                              redistribution const& path) {
    if (!path.exists) return true;
    redistribution const plain = plainly::find(mesh, dims, a, b);
    return plain.cost >= path.cost && ends_in_target::holds(mesh, dims, a, b, plain);
  }
};

using path_laws = all_of<exists_where_possible, ends_in_target, empty_where_equal, has_dual>;

/// Least costs between all pairs of a set of layouts, by relaxing every single step over and over: an independent way
/// to what the search finds. Steps move only the axes in the bit set `moved`.
class cheapest_costs {
 public:
  static constexpr std::size_t none = ~std::size_t{0};
  static constexpr std::size_t limit = 32;

  cheapest_costs(mesh_value const& mesh, dimension_list const& dims, layout_set const& all, unsigned moved)
      : count_(all.count) {
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t j = 0; j < count_; ++j) cost_[i][j] = i == j ? 0 : none;
    for (std::size_t i = 0; i < count_; ++i)
      if (divides(mesh, dims, all.at[i])) add_steps(mesh, dims, all, i, moved);
    for (std::size_t via = 0; via < count_; ++via)
      for (std::size_t i = 0; i < count_; ++i)
        for (std::size_t j = 0; j < count_ && cost_[i][via] != none; ++j)
          if (cost_[via][j] != none && cost_[i][via] + cost_[via][j] < cost_[i][j])
            cost_[i][j] = cost_[i][via] + cost_[via][j];
  }
  [[nodiscard]] std::size_t operator()(std::size_t i, std::size_t j) const { return cost_[i][j]; }

 private:
  void add_steps(mesh_value const& mesh, dimension_list const& dims, layout_set const& all, std::size_t i,
                 unsigned moved) {
    std::size_t const n = local_elements(mesh, dims, all.at[i]);
    for (std::size_t kind = 0; kind < 5; ++kind)
      for (std::size_t a = 0; a < mesh.axes; ++a)
        for (std::size_t from = 0; from < dims.rank && (moved >> a & 1U) != 0; ++from)
          for (std::size_t to = 0; to < dims.rank; ++to) {
            redistribution_step s{};
            s.kind = static_cast<step_kind>(kind);
            s.axis = static_cast<std::uint8_t>(a);
            s.from = static_cast<std::uint8_t>(from);
            s.to = static_cast<std::uint8_t>(to);
            stepped const next = apply(mesh, dims, all.at[i], s);
            if (!next.legal) continue;
            std::size_t j = 0;
            while (!(all.at[j] == next.result)) ++j;
            std::size_t const sent = sent_in(s.kind, n, local_elements(mesh, dims, next.result), mesh.axis[a].size);
            if (sent < cost_[i][j]) cost_[i][j] = sent;
          }
  }
  std::size_t count_;
  std::array<std::array<std::size_t, limit>, limit> cost_{};
};

/// The axes a path from a to b may move: those that differ, and those that share a dimension with one of them.
constexpr unsigned movable(mesh_value const& mesh, layout const& a, layout const& b) {
  unsigned moved = 0;
  for (std::size_t x = 0; x < mesh.axes; ++x) moved |= a.axis[x] == b.axis[x] ? 0U : 1U << x;
  for (std::size_t round = 0; round < mesh.axes; ++round)
    for (std::size_t x = 0; x < mesh.axes; ++x)
      for (std::size_t y = 0; y < mesh.axes; ++y)
        for (layout const* l : {&a, &b})
          for (layout const* m : {&a, &b})
            if ((moved >> y & 1U) != 0 && l->is_split(x) && m->is_split(y) && l->axis[x].dim == m->axis[y].dim)
              moved |= 1U << x;
  return moved;
}

/// On meshes of two axes no path is cheaper than the one found. (Not constexpr: g++ would try to fold it for a minute.)
template <class Case>
bool paths_are_cheapest() {
  static_assert(Case::mesh.axes == 2 && Case::layouts.count <= cheapest_costs::limit);
  cheapest_costs const by[] = {{Case::mesh, Case::dims, Case::layouts, 0},
                               {Case::mesh, Case::dims, Case::layouts, 1},
                               {Case::mesh, Case::dims, Case::layouts, 2},
                               {Case::mesh, Case::dims, Case::layouts, 3}};
  for (std::size_t i = 0; i < Case::layouts.count; ++i)
    for (std::size_t j = 0; j < Case::layouts.count; ++j) {
      layout const& a = Case::layouts.at[i];
      layout const& b = Case::layouts.at[j];
      if (!divides(Case::mesh, Case::dims, a)) continue;
      redistribution const path = find_redistribution(Case::mesh, Case::dims, a, b);
      std::size_t const least = by[movable(Case::mesh, a, b)](i, j);
      if (path.exists ? path.cost != least : least != cheapest_costs::none) return false;
    }
  return true;
}

}  // namespace heddle::laws
