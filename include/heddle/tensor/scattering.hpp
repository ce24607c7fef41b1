// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <heddle/layout/redistribution.hpp>

namespace heddle {

/// Whose share of a tensor is where, under a path that begins with reduce-scatters (and all-reduces, which change no
/// shape): what several tensors need to go through the same collectives together.
struct scattering {
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> whole{};  ///< extents before
  std::array<std::size_t, max_rank> share{};  ///< and after
  std::array<std::size_t, max_steps> ways{};  ///< of each scatter, in order
  std::array<std::size_t, max_steps> dim{};
  std::array<std::size_t, max_steps> axis{};
  std::size_t count = 0;     ///< of scatters
  std::size_t all_ways = 1;  ///< shares that the tensor falls into
  std::size_t size = 1;      ///< elements of a share, padding included
};
constexpr scattering scattering_of(mesh_value const& mesh, redistribution const& path) {
  scattering s{};
  s.rank = path.rank;
  s.whole = s.share = path.step[0].extent;
  for (std::size_t i = 0; i < path.count; ++i) {
    auto const& step = path.step[i];
    if (step.kind != step_kind::reduce_scatter) continue;
    s.ways[s.count] = mesh.axis[step.axis].size;
    s.axis[s.count] = step.axis;
    s.dim[s.count++] = step.to;
    s.all_ways *= mesh.axis[step.axis].size;
    s.share[step.to] = block_extent(s.share[step.to], mesh.axis[step.axis].size);
  }
  for (std::size_t k = 0; k < s.rank; ++k) s.size *= s.share[k];
  return s;
}

/// Elements [begin, begin + count) of every share of a tensor, in runs: calls `run(share, at, tensor, real, length)`
/// for `length` elements that stand at `at` (counted from `begin`) of that share; the first `real` of them are the
/// tensor's from `tensor` on, the others padding. Shares are numbered in the order in which the path's reduce-scatters
/// cut a contiguous buffer.
template <class Run>
void for_each_share_run(scattering const& s, std::size_t begin, std::size_t count, Run run) {
  // From the last dimension that is scattered on, a share's rows are contiguous in the whole.
  std::size_t const last =
      s.count == 0 ? 0 : *std::max_element(s.dim.begin(), s.dim.begin() + static_cast<std::ptrdiff_t>(s.count));
  std::size_t inner = 1;
  for (std::size_t k = last + 1; k < s.rank; ++k) inner *= s.whole[k];
  std::size_t const row = (s.rank == 0 ? 1 : s.share[last]) * inner;
  for (std::size_t w = 0; w < s.all_ways; ++w) {
    std::array<std::size_t, max_rank> origin{}, real = s.whole, extent = s.whole;
    std::size_t rest = w, below = s.all_ways;
    for (std::size_t i = 0; i < s.count; ++i) {
      below /= s.ways[i];
      std::size_t const k = s.dim[i];
      extent[k] = block_extent(extent[k], s.ways[i]);
      std::size_t const from = rest / below * extent[k];
      rest %= below;
      origin[k] += from;
      real[k] = std::min(real[k] > from ? real[k] - from : 0, extent[k]);
    }
    std::size_t const present = s.rank == 0 ? 1 : real[last] * inner;
    for (std::size_t at = begin; at < begin + count;) {
      std::size_t const inside = at % row, length = std::min(row - inside, begin + count - at);
      bool exists = true;
      std::size_t outer = at / row, base = origin[last] * inner + inside, span = s.whole[last] * inner;
      for (std::size_t k = last; k-- > 0;) {
        std::size_t const i = outer % s.share[k];
        outer /= s.share[k];
        exists = exists && i < real[k];
        base += (origin[k] + i) * span;
        span *= s.whole[k];
      }
      run(w, at - begin, base, exists && present > inside ? std::min(present - inside, length) : 0, length);
      at += length;
    }
  }
}

}  // namespace heddle
