// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>
#include <heddle/comm/reduction.hpp>
#include <heddle/layout/redistribution.hpp>
#include <span>

namespace heddle {

namespace detail {

/// A row-major local tensor seen from one of its dimensions: [outer, extent, inner].
struct dimension_view {
  std::size_t outer = 1, extent = 1, inner = 1;
};
constexpr dimension_view view_at(std::array<std::size_t, max_rank> const& extent, std::size_t rank, std::size_t k) {
  dimension_view v;
  for (std::size_t i = 0; i < rank; ++i) (i < k ? v.outer : i == k ? v.extent : v.inner) *= extent[i];
  return v;
}

/// [outer, blocks, block, inner] → [blocks, outer, block, inner], or back: what turns blocks of an inner dimension into
/// the contiguous pieces that a collective exchanges.
template <class T>
void blocks_to_front(T const* in, T* out, std::size_t outer, std::size_t blocks, std::size_t block_inner) {
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t o = 0; o < outer; ++o)
      std::memcpy(out + (b * outer + o) * block_inner, in + (o * blocks + b) * block_inner, block_inner * sizeof(T));
}
template <class T>
void blocks_from_front(T const* in, T* out, std::size_t outer, std::size_t blocks, std::size_t block_inner) {
  for (std::size_t b = 0; b < blocks; ++b)
    for (std::size_t o = 0; o < outer; ++o)
      std::memcpy(out + (o * blocks + b) * block_inner, in + (b * outer + o) * block_inner, block_inner * sizeof(T));
}

/// One step. `packed` has room for two copies of the larger side, and is used only where the dimension is not
/// outermost.
template <class Communicator, class T>
void execute_step(redistribution const& path, redistribution_step const& s, Communicator& group, T const* in, T* out,
                  T* packed) {
  std::size_t const ways = group.size();
  std::size_t const n = size_before(path, s);
  T* const packed_out = packed + (s.kind == step_kind::all_gather ? n * ways : n);
  switch (s.kind) {
    case step_kind::slice: {
      dimension_view const v = view_at(s.extent, path.rank, s.to);
      std::size_t const block = v.extent / ways * v.inner;
      for (std::size_t o = 0; o < v.outer; ++o)
        std::memmove(out + o * block, in + (o * ways + group.rank()) * block, block * sizeof(T));
      return;
    }
    case step_kind::all_reduce: {
      if (in != out) std::memcpy(out, in, n * sizeof(T));
      group.all_reduce(std::span<T>(out, n), comm::reduction::sum);
      return;
    }
    case step_kind::reduce_scatter: {
      dimension_view const v = view_at(s.extent, path.rank, s.to);
      std::size_t const block = v.extent / ways * v.inner;
      T const* pieces = in;
      if (v.outer > 1) {
        blocks_to_front(in, packed, v.outer, ways, block);
        pieces = packed;
      }
      group.reduce_scatter(std::span<T const>(pieces, n), std::span<T>(out, n / ways), comm::reduction::sum);
      return;
    }
    case step_kind::all_gather: {
      dimension_view const v = view_at(s.extent, path.rank, s.from);
      if (v.outer == 1) {
        group.all_gather(std::span<T const>(in, n), std::span<T>(out, n * ways));
      } else {
        group.all_gather(std::span<T const>(in, n), std::span<T>(packed, n * ways));
        blocks_from_front(packed, out, v.outer, ways, v.extent * v.inner);
      }
      return;
    }
    case step_kind::all_to_all: {
      dimension_view const to = view_at(s.extent, path.rank, s.to);
      std::size_t const block = to.extent / ways * to.inner;
      T const* pieces = in;
      if (to.outer > 1) {
        blocks_to_front(in, packed, to.outer, ways, block);
        pieces = packed;
      }
      auto after = s.extent;
      after[s.to] /= ways;
      dimension_view const from = view_at(after, path.rank, s.from);
      T* const arrived = from.outer > 1 ? packed_out : out;
      group.all_to_all(std::span<T const>(pieces, n), std::span<T>(arrived, n));
      if (from.outer > 1) blocks_from_front(arrived, out, from.outer, ways, from.extent * from.inner);
      return;
    }
  }
}

}  // namespace detail

/// Executes a redistribution on this rank's part of a tensor: `in` has `path.from_size` elements, `out` `path.to_size`,
/// `scratch` `redistribution_scratch(mesh, path)`. `in` and `out` may be the same where sizes agree and the path is a
/// single all-reduce. Collective over the process groups of the path's axes.
///
/// **Moves.** What `count_redistribution` counts. **Order.** Reductions add in the order of the group's ranks.
template <class MeshCommunicator, class T>
void redistribute(MeshCommunicator& comm, redistribution const& path, T const* in, T* out, T* scratch) {
  constexpr auto const& mesh = MeshCommunicator::mesh::value;
  if (path.count == 0) {
    if (in != out) std::memcpy(out, in, path.from_size * sizeof(T));
    return;
  }
  std::size_t between = 0;
  for (std::size_t i = 0; i + 1 < path.count; ++i) {
    std::size_t const after = size_after(path, path.step[i], mesh.axis[path.step[i].axis].size);
    if (after > between) between = after;
  }
  T* const packed = scratch + (path.count > 1 ? 2 * between : 0);
  T const* from = in;
  for (std::size_t i = 0; i < path.count; ++i) {
    auto const& s = path.step[i];
    T* const to = i + 1 == path.count ? out : scratch + i % 2 * between;
    detail::execute_step(path, s, comm.along(s.axis), from, to, packed);
    from = to;
  }
}

}  // namespace heddle
