// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <heddle/tensor/index_map.hpp>
#include <support/device.cuh>

namespace heddle::kernels {

/// An `index_map` for device code, which may not call std::array. Best made of the map that the host's `merged` gives:
/// each dimension costs an integer division.
struct index_runs {
  int rank = 0;
  std::uint64_t extent[index_map::max_rank]{};
  std::uint64_t valid[index_map::max_rank]{};
  std::uint64_t stride[index_map::max_rank]{};
  std::uint64_t origin = 0;

  /// On the host.
  static index_runs of(index_map const& map) {
    index_runs out;
    out.rank = static_cast<int>(map.rank);
    out.origin = map.origin;
    for (std::size_t k = 0; k < map.rank; ++k) {
      out.extent[k] = map.extent[k];
      out.valid[k] = map.valid[k];
      out.stride[k] = map.stride[k];
    }
    return out;
  }
};

/// Where a local element stands in the global tensor. Padding is not `real` and has no global index.
struct global_position {
  std::uint64_t global;
  std::uint64_t inner;  ///< its index in the innermost dimension
  bool outer_real;      ///< the other dimensions' indices are not padding
  bool real;
};

__device__ inline global_position position_of(index_runs const& map, std::uint64_t local) {
  global_position at{map.origin, 0, true, true};
  for (int k = map.rank - 1; k >= 0; --k) {
    // The outermost index needs no division: often it is the only one.
    std::uint64_t const rest = k > 0 ? local / map.extent[k] : 0;
    std::uint64_t const index = local - rest * map.extent[k];
    at.global += index * map.stride[k];
    if (k == map.rank - 1) {
      at.inner = index;
      at.real = index < map.valid[k];
    } else {
      at.outer_real = at.outer_real && index < map.valid[k];
    }
    local = rest;
  }
  at.real = at.real && at.outer_real;
  return at;
}

/// The position of element `local + 1`, given that of element `local`.
__device__ inline global_position next_position(index_runs const& map, global_position at, std::uint64_t local) {
  int const k = map.rank - 1;
  if (k < 0 || at.inner + 1 == map.extent[k]) return position_of(map, local + 1);
  ++at.inner;
  at.global += map.stride[k];
  at.real = at.outer_real && at.inner < map.valid[k];
  return at;
}

}  // namespace heddle::kernels
