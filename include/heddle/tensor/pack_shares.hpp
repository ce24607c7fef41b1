// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <heddle/layout/redistribution.hpp>

namespace heddle {

namespace detail {

/// A path of reduce-scatters (and all-reduces, which change no shape): whose share of the tensor is where.
struct scattering {
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> whole{};  ///< extents before
  std::array<std::size_t, max_rank> share{};  ///< and after
  std::array<std::size_t, max_steps> ways{};  ///< of each scatter, in order
  std::array<std::size_t, max_steps> dim{};
  std::size_t count = 0;
  std::size_t all_ways = 1;
};
constexpr scattering scattering_of(mesh_value const& mesh, redistribution const& path) {
  scattering s{};
  s.rank = path.rank;
  s.whole = s.share = path.step[0].extent;
  for (std::size_t i = 0; i < path.count; ++i) {
    auto const& step = path.step[i];
    if (step.kind != step_kind::reduce_scatter) continue;
    s.ways[s.count] = mesh.axis[step.axis].size;
    s.dim[s.count++] = step.to;
    s.all_ways *= mesh.axis[step.axis].size;
    s.share[step.to] = block_extent(s.share[step.to], mesh.axis[step.axis].size);
  }
  return s;
}

}  // namespace detail

/// Elements [begin, begin + count) of every rank's share of the tensor `in` that `path` scatters, in the order in which
/// its reduce-scatters cut a contiguous buffer: rank w's go to `to + w·stride`. What a share has of padding is zero.
template <class T>
void pack_shares(mesh_value const& mesh, redistribution const& path, T const* in, std::size_t begin, std::size_t count,
                 T* to, std::size_t stride) {
  detail::scattering const s = detail::scattering_of(mesh, path);
  if (s.count == 0) {
    std::memcpy(to, in + begin, count * sizeof(T));
    return;
  }
  // From the last dimension that is scattered on, a share's rows are contiguous in the whole.
  std::size_t const last = *std::max_element(s.dim.begin(), s.dim.begin() + static_cast<std::ptrdiff_t>(s.count));
  std::size_t inner = 1;
  for (std::size_t k = last + 1; k < s.rank; ++k) inner *= s.whole[k];
  std::size_t const row = s.share[last] * inner;
  for (std::size_t w = 0; w < s.all_ways; ++w, to += stride) {
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
    T* out = to;
    for (std::size_t at = begin; at < begin + count;) {
      std::size_t const inside = at % row, length = std::min(row - inside, begin + count - at);
      bool exists = true;
      std::size_t outer = at / row, base = 0, span = s.whole[last] * inner;
      for (std::size_t k = last; k-- > 0;) {
        std::size_t const i = outer % s.share[k];
        outer /= s.share[k];
        exists = exists && i < real[k];
        base += (origin[k] + i) * span;
        span *= s.whole[k];
      }
      std::size_t const present = real[last] * inner;
      std::size_t const copied = exists && present > inside ? std::min(present - inside, length) : 0;
      if (copied != 0) std::memcpy(out, in + base + origin[last] * inner + inside, copied * sizeof(T));
      std::memset(out + copied, 0, (length - copied) * sizeof(T));
      out += length;
      at += length;
    }
  }
}

}  // namespace heddle
