// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/layout.hpp>
#include <heddle/tensor/index_map.hpp>

namespace heddle {

/// The global indices of the part of a tensor that the rank at `at` holds. Strides are those of the unpadded tensor, so
/// they do not depend on the plan. Where `dims` is itself a part of something larger (a micro-batch of a step), `whole`
/// has the same dimensions with the larger sizes.
constexpr index_map local_index_map(mesh_value const& mesh, dimension_list const& dims, layout const& l,
                                    coordinates const& at, dimension_list const& whole) {
  index_map map{};
  map.rank = dims.rank;
  std::uint64_t stride = 1;
  for (std::size_t k = dims.rank; k-- > 0;) {
    block_range const mine = local_block(mesh, dims.dim[k], l, at);
    map.extent[k] = mine.extent;
    map.valid[k] = mine.valid;
    map.stride[k] = stride;
    map.origin += mine.origin * stride;
    stride *= whole.dim[k].size;
  }
  return map;
}
constexpr index_map local_index_map(mesh_value const& mesh, dimension_list const& dims, layout const& l,
                                    coordinates const& at) {
  return local_index_map(mesh, dims, l, at, dims);
}

}  // namespace heddle
