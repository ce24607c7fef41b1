// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/backward_mma.cuh>
#include <attention/forward.cuh>
#include <attention/forward_mma.cuh>
#include <support/geometry.cuh>
#include <support/tuning.cuh>

/// Grids, shared memory and tunings of attention's kernels.
namespace heddle::kernels {

/// A block for each tile of `rows` tokens of each head: of batch · kv_heads · group query heads, or with group 1, of
/// the key-value heads.
constexpr dim3 attention_grid(int batch, int kv_heads, int group, int tokens, int rows) {
  return dim3(static_cast<unsigned>(batch) * static_cast<unsigned>(kv_heads) * static_cast<unsigned>(group),
              detail::blocks_for(tokens, rows));
}
/// Elements of log_sum_exp, and of `inner`.
constexpr long long attention_statistics(int batch, attention_shape const& shape) {
  return static_cast<long long>(batch) * shape.kv_heads * shape.group * shape.queries;
}
template <class T, int HeadDim, int Threads>
constexpr dim3 attention_inner_grid(long long statistics) {
  return dim3(detail::blocks_for(statistics, Threads / inner_lanes<T, HeadDim>));
}

/// The tile of a block: `rows` of what it writes, by `columns` of what it goes through; and its shared memory, bytes.
struct attention_tile {
  int rows, columns, threads, shared;
};

/// Names of attention's kernels for `tuning`: each of them with or without tensor cores.
template <class T, int HeadDim, bool TensorCores>
struct attention_forward_kernel {};
template <class T, int HeadDim, bool TensorCores>
struct attention_query_gradient_kernel {};
template <class T, int HeadDim, bool TensorCores>
struct attention_key_gradient_kernel {};

/// Whether T's attention uses tensor cores on a device.
template <class T>
constexpr bool attention_on_tensor_cores(int capability) {
  return has_mma<T> && has_tensor_cores(capability);
}

namespace detail {
/// The first, the last apart, that leaves room for a second block, which computes while the other waits for memory (of
/// each block the system takes 1 KiB more); else the first that fits; none, with which no kernel compiles, if there is
/// none.
template <int Count>
constexpr attention_tile tile_that_fits(attention_tile const (&tiles)[Count], int capability) {
  int const most = block_shared_bytes(capability);
  for (int i = 0; i + 1 < Count; ++i)
    if (2 * tiles[i].shared + 1024 <= most) return tiles[i];
  for (attention_tile const& one : tiles)
    if (one.shared <= most) return one;
  return {};
}
}  // namespace detail

// Larger tiles read keys and values less often; the results' registers bound the rows of a warp, and shared memory the
// rest. Chosen by these counts, not by a measurement.
template <class T, int HeadDim>
struct tuning<attention_forward_kernel<T, HeadDim, false>> {
  template <int Rows, int Columns>
  static constexpr attention_tile tile{Rows, Columns, detail::plain_threads,
                                       attention_forward_shared<T, HeadDim, Rows, Columns>()};
  static constexpr attention_tile at(int capability) {
    return detail::tile_that_fits({tile<64, 64>, tile<64, 32>, tile<32, 32>, tile<16, 16>}, capability);
  }
};
template <class T, int HeadDim>
struct tuning<attention_query_gradient_kernel<T, HeadDim, false>> {
  template <int Rows, int Columns>
  static constexpr attention_tile tile{Rows, Columns, detail::plain_threads,
                                       attention_query_gradient_shared<T, HeadDim, Rows, Columns>()};
  static constexpr attention_tile at(int capability) {
    return detail::tile_that_fits({tile<64, 32>, tile<32, 32>, tile<16, 16>}, capability);
  }
};
template <class T, int HeadDim>
struct tuning<attention_key_gradient_kernel<T, HeadDim, false>> {
  template <int Rows, int Columns>
  static constexpr attention_tile tile{Rows, Columns, detail::plain_threads,
                                       attention_key_gradient_shared<T, HeadDim, Rows, Columns>()};
  static constexpr attention_tile at(int capability) {
    return detail::tile_that_fits({tile<64, 32>, tile<32, 32>, tile<16, 16>}, capability);
  }
};

template <class T, int HeadDim>
struct tuning<attention_forward_kernel<T, HeadDim, true>> {
  template <int Rows, int Columns>
  static constexpr attention_tile tile{Rows, Columns, Rows * 2,
                                       attention_forward_mma_shared<T, HeadDim, Rows, Columns>()};
  static constexpr attention_tile at(int capability) {
    if constexpr (HeadDim <= 64)
      return detail::tile_that_fits({tile<128, 64>, tile<64, 64>, tile<64, 32>}, capability);
    else if constexpr (HeadDim <= 128)
      return detail::tile_that_fits({tile<64, 64>, tile<64, 32>, tile<32, 32>}, capability);
    else
      return detail::tile_that_fits({tile<64, 32>, tile<32, 32>, tile<32, 16>}, capability);
  }
};
template <class T, int HeadDim>
struct tuning<attention_query_gradient_kernel<T, HeadDim, true>> {
  template <int Rows, int Columns>
  static constexpr attention_tile tile{Rows, Columns, Rows * 2,
                                       attention_query_gradient_mma_shared<T, HeadDim, Rows, Columns>()};
  static constexpr attention_tile at(int capability) {
    if constexpr (HeadDim <= 64)
      return detail::tile_that_fits({tile<64, 64>, tile<64, 32>, tile<32, 32>}, capability);
    else if constexpr (HeadDim <= 128)
      return detail::tile_that_fits({tile<64, 32>, tile<32, 32>}, capability);
    else
      return detail::tile_that_fits({tile<64, 16>, tile<32, 16>, tile<16, 16>}, capability);
  }
};
template <class T, int HeadDim>
struct tuning<attention_key_gradient_kernel<T, HeadDim, true>> {
  template <int Rows, int Columns>
  static constexpr attention_tile tile{Rows, Columns, Rows * 2 * key_gradient_splits<HeadDim>,
                                       attention_key_gradient_mma_shared<T, HeadDim, Rows, Columns>()};
  static constexpr attention_tile at(int capability) {
    if constexpr (HeadDim < 32)  // of wider tiles what is beside the results spills
      return detail::tile_that_fits({tile<64, 32>, tile<32, 32>}, capability);
    else if constexpr (HeadDim <= 64)
      return detail::tile_that_fits({tile<64, 64>, tile<64, 32>, tile<32, 32>}, capability);
    else if constexpr (HeadDim <= 128)
      return detail::tile_that_fits({tile<64, 32>, tile<32, 32>}, capability);
    else
      return detail::tile_that_fits({tile<64, 16>, tile<32, 16>, tile<16, 16>}, capability);
  }
};

}  // namespace heddle::kernels
