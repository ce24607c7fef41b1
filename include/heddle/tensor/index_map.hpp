// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace heddle {

/// Where the elements of one rank's local tensor stand in the global tensor: the key of everything that must not depend
/// on the plan (initial weights, dropout masks).
///
/// The local tensor is row-major with `extent`; its element (i0, i1, …) is element `origin + Σ i_k · stride_k` of the
/// row-major *unpadded* global tensor. `valid[k] <= extent[k]` is how many indices of dimension k are real; the others
/// are padding, which has no global index (it holds zeros).
struct index_map {
  static constexpr std::size_t max_rank = 8;
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> extent{};    ///< local, padding included
  std::array<std::size_t, max_rank> valid{};     ///< local, padding excluded
  std::array<std::uint64_t, max_rank> stride{};  ///< of the global tensor, in elements
  std::uint64_t origin = 0;

  [[nodiscard]] constexpr std::size_t size() const {
    std::size_t n = 1;
    for (std::size_t k = 0; k < rank; ++k) n *= extent[k];
    return n;
  }
};

/// The same elements with as few dimensions as say so: what stands side by side here and in the global tensor is one
/// run.
constexpr index_map merged(index_map const& map) {
  index_map out = map;
  out.rank = 0;
  for (std::size_t k = 0; k < map.rank; ++k) {
    if (out.rank > 0 && map.valid[k] == map.extent[k] && out.stride[out.rank - 1] == map.extent[k] * map.stride[k]) {
      out.extent[out.rank - 1] *= map.extent[k];
      out.valid[out.rank - 1] *= map.extent[k];
      out.stride[out.rank - 1] = map.stride[k];
      continue;
    }
    out.extent[out.rank] = map.extent[k];
    out.valid[out.rank] = map.valid[k];
    out.stride[out.rank++] = map.stride[k];
  }
  return out;
}

/// Calls `run(local_begin, count, global_begin)` for each innermost row of real elements, in local order: `count`
/// elements that stand side by side here and, where the innermost global stride is 1 (always, for row-major tensors),
/// there too. Padding is not visited.
template <class Run>
constexpr void for_each_run(index_map const& map, Run run) {
  if (map.rank == 0) {
    run(std::size_t{0}, std::size_t{1}, map.origin);
    return;
  }
  std::size_t const inner = map.rank - 1;
  for (std::size_t k = 0; k < map.rank; ++k)
    if (map.valid[k] == 0) return;
  std::array<std::size_t, index_map::max_rank> at{};
  for (;;) {
    std::size_t local = 0;
    std::uint64_t global = map.origin;
    for (std::size_t k = 0; k < map.rank; ++k) {
      local = local * map.extent[k] + at[k];
      global += at[k] * map.stride[k];
    }
    run(local, map.valid[inner], global);
    std::size_t k = inner;
    for (;;) {
      if (k == 0) return;
      --k;
      if (++at[k] < map.valid[k]) break;
      at[k] = 0;
    }
  }
}

}  // namespace heddle
