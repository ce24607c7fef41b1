// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <heddle/tensor/table_row.hpp>
#include <support/vector.cuh>

/// Look-up in a table[vocabulary, width] that may be one part of a table split over its ids, `first` to
/// `first + vocabulary - 1`.
namespace heddle::kernels {

/// y[rows, width] from tokens[rows], with `row_grid`: zeros for an id that is held elsewhere, so that the parts'
/// results add up to the whole's.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    embedding_forward(std::int32_t const* tokens, T const* table, int vocabulary, int width, long long first, T* y) {
  long long const row = blockIdx.x;
  bool const whole = whole_packs<T>(width, table, y);
  long long const from = table_row(tokens[row], first, vocabulary);
  for (int i = static_cast<int>(threadIdx.x) * pack_width<T>; i < width; i += Threads * pack_width<T>)
    store_pack(y + row * width + i,
               from < vocabulary ? load_pack<T>(table + from * width + i, width - i, whole) : pack<T>{}, width - i,
               whole);
}

/// dtable[vocabulary, width] += the rows of dy whose id it holds, in the order of the rows: the host's sum, bit for bit
/// where `Gradient` is what T is summed in, and rounded once an id where it is T and narrower (known-faults BF-3).
///
/// Block (s, c) adds up segment s of `token_order`, in the columns that the c-th of the grid's blocks comes to; any
/// number of them gives the same bits. The order is prepared by the host because it has the tokens before the device
/// does, and once per batch: then a block exists for each distinct id of the batch and reads its own rows alone. Blocks
/// that look for their rows would read all tokens for each of the table's ids, hundreds of millions at 50000 ids and a
/// batch of 8192; atomics would not keep the order.
///
/// Grid: `id_grid`, which is the plan's, where the number of segments is the batch's: a graph that was captured with
/// the one serves for all batches, and blocks beyond `*segments` have nothing to do. A segment is one loop of a block,
/// so the most frequent id decides how long the kernel runs: a batch of one id alone is added up row by row. To cut
/// segments in pieces would change the order of the sums, and with it the host's bits.
template <class T, class Gradient, int Threads>
__global__ void __launch_bounds__(Threads)
    embedding_backward(int const* order, int const* segment_begin, int const* segment_id, int const* segments,
                       T const* dy, int width, Gradient* dtable) {
  if (static_cast<int>(blockIdx.x) >= *segments) return;
  bool const whole = whole_packs<T>(width, dy, dtable);
  int const begin = segment_begin[blockIdx.x], end = segment_begin[blockIdx.x + 1];
  Gradient* const row = dtable + static_cast<long long>(segment_id[blockIdx.x]) * width;
  int const stride = static_cast<int>(gridDim.y) * Threads * pack_width<T>;
  for (int i = static_cast<int>(blockIdx.y * Threads + threadIdx.x) * pack_width<T>; i < width; i += stride) {
    pack<T> sum = load_pack<T>(row + i, width - i, whole);
    for (int k = begin; k < end; ++k) {
      pack<T> const term = load_pack<T>(dy + static_cast<long long>(order[k]) * width + i, width - i, whole);
      for (int j = 0; j < pack_width<T>; ++j) sum[j] += term[j];
    }
    store_pack(row + i, sum, width - i, whole);
  }
}

}  // namespace heddle::kernels
