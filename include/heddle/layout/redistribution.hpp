// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/path_search.hpp>

namespace heddle {

/// The path of fewest elements sent (then fewest steps) from one layout of a tensor to another, among those that move
/// only the axes that differ and those that share a dimension with one of them. `exists` is false where there is none:
/// to become partial, or to split a stored size that does not divide. Of four axes at once and more the path is the
/// plain one: scatter what is pending to where it is wanted, or complete it; gather; slice.
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
  if (!detail::can_redistribute(mesh, dims, from, to)) return path;
  std::size_t differing = 0, a = 0;
  for (std::size_t b = 0; b < mesh.axes; ++b)
    if (!(from.axis[b] == to.axis[b])) {
      ++differing;
      a = b;
    }
  path.exists = differing == 0;
  if (differing == 0 || (differing == 1 && detail::one_step(mesh, dims, from, to, a, path))) return path;
  // Two axes and three dimensions make 28 layouts, three axes and three dimensions 176.
  if (differing <= 2 && detail::path_search<32>(mesh, dims, from, to).run(path)) return path;
  if (differing <= 3 && detail::path_search<180>(mesh, dims, from, to).run(path)) return path;
  if (!detail::path_search<detail::search_capacity>(mesh, dims, from, to).run(path))
    detail::plain_path(mesh, dims, from, to, path);
  return path;
}

namespace detail {
/// Whether blocks of dimension k are contiguous.
constexpr bool is_outermost(redistribution_step const& s, std::size_t k) {
  for (std::size_t i = 0; i < k; ++i)
    if (s.extent[i] != 1) return false;
  return true;
}
}  // namespace detail

/// Elements of packed copies that step `s` needs: of a collective's pieces where they do not lie one behind the other,
/// or hold padding that the tensor does not have.
struct step_packing {
  std::size_t in = 0;
  std::size_t out = 0;
};
constexpr step_packing packing_of(redistribution const& path, redistribution_step const& s, std::size_t ways) {
  std::size_t const moved = size_moved(path, s, ways);
  switch (s.kind) {
    case step_kind::reduce_scatter:
      return {detail::is_outermost(s, s.to) && moved == size_before(path, s) ? 0 : moved, 0};
    case step_kind::all_gather:
      return {0, detail::is_outermost(s, s.from) && moved == size_after(path, s, ways) ? 0 : moved};
    case step_kind::all_to_all:
      return {detail::is_outermost(s, s.to) ? 0 : moved, detail::is_outermost(s, s.from) ? 0 : moved};
    default:
      return {};
  }
}

/// Whether executing `path` may write its result where its input stands: it does nothing, or all-reduces alone.
constexpr bool works_in_place(redistribution const& path) {
  for (std::size_t i = 0; i < path.count; ++i)
    if (path.step[i].kind != step_kind::all_reduce) return false;
  return path.exists;
}

/// Whether `part` picks this rank's block of a value where it stands, contiguous and without padding, and `whole`
/// gathers the blocks there again: what happens to the block between the two needs no copy of it.
constexpr bool stays_in_place(mesh_value const& mesh, redistribution const& part, redistribution const& whole) {
  if (part.count != 1 || whole.count != 1) return false;
  redistribution_step const &slice = part.step[0], &gather = whole.step[0];
  if (slice.kind != step_kind::slice || gather.kind != step_kind::all_gather || slice.axis != gather.axis) return false;
  std::size_t const ways = mesh.axis[slice.axis].size;
  return detail::is_outermost(slice, slice.to) && slice.to == gather.from && slice.extent[slice.to] % ways == 0 &&
         packing_of(whole, gather, ways).out == 0;
}

/// Scratch elements that executing `path` needs beside its input and output: values between steps, and packed copies.
constexpr std::size_t redistribution_scratch(mesh_value const& mesh, redistribution const& path) {
  if (works_in_place(path)) return 0;
  std::size_t between = 0, packed = 0;
  for (std::size_t i = 0; i < path.count; ++i) {
    std::size_t const ways = mesh.axis[path.step[i].axis].size;
    std::size_t const after = size_after(path, path.step[i], ways);
    if (i + 1 < path.count && after > between) between = after;
    step_packing const p = packing_of(path, path.step[i], ways);
    if (p.in + p.out > packed) packed = p.in + p.out;
  }
  return (path.count > 1 ? 2 * between : 0) + packed;
}

}  // namespace heddle
