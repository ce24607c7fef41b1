// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <heddle/tensor/table_row.hpp>
#include <support/reduce.cuh>
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

/// dtable[vocabulary, width] += the rows of dy[rows, width] whose id it holds, in the order of the rows: the host's
/// sum, bit for bit where `Gradient` is what T is summed in, and rounded once an id where it is T and narrower
/// (known-faults BF-3).
///
/// Block (r, c) looks whether its token stands in an earlier row. If not, it is its id's, and adds up all rows that
/// have the id: a thread one pack of the columns, the c-th of the grid's that many. So nothing is sorted, nobody needs
/// to know the tokens before the device does, and nothing is kept. It reads all tokens once for each distinct id, and
/// for every other row those up to the first of its kind: at 8192 rows some 100 MB from the second-level cache, less
/// than dy; the square of the rows bounds it. An id is one loop of a block, so the most frequent id decides how long
/// the kernel runs; to cut it in pieces would change the order of the sums, and atomics would not keep it.
///
/// Grid: `embedding_grid`.
template <class T, class Gradient, int Threads>
__global__ void __launch_bounds__(Threads)
    embedding_backward(std::int32_t const* tokens, int rows, T const* dy, int vocabulary, int width, long long first,
                       Gradient* dtable) {
  constexpr int warps = Threads / warp_lanes, piece = 16 * Threads;
  HEDDLE_SHARED(earlier, warps, int);
  HEDDLE_SHARED(same, warps, unsigned);
  int const row = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  std::int32_t const token = tokens[row];
  long long const to = table_row(token, first, vocabulary);
  if (to >= vocabulary) return;
  for (int begin = 0; begin < row; begin += piece) {
    int const end = row - begin < piece ? row : begin + piece;
    int found = 0;
    for (int i = begin + thread; i < end; i += Threads) found |= tokens[i] == token ? 1 : 0;
    if (block_reduce<Threads>(found, earlier, max_of{}) != 0) return;
    __syncthreads();
  }
  int const column = (static_cast<int>(blockIdx.y) * Threads + thread) * pack_width<T>, count = width - column;
  bool const whole = whole_packs<T>(width, dy, dtable);
  Gradient* const out = dtable + to * width + column;
  pack<T> sum{};
  if (count > 0) sum = load_pack<T>(out, count, whole);
  for (int begin = row; begin < rows; begin += Threads) {
    int const i = begin + thread;
    unsigned const lanes = __ballot_sync(all_lanes, i < rows && tokens[i] == token ? 1 : 0);
    if (thread % warp_lanes == 0) same[thread / warp_lanes] = lanes;
    __syncthreads();
    if (count > 0)
      for (int w = 0; w < warps; ++w) {
        unsigned const of_warp = same[w];
        for (int lane = 0; lane < warp_lanes && of_warp >> lane != 0; ++lane) {
          if ((of_warp >> lane & 1U) == 0) continue;
          long long const at = begin + w * warp_lanes + lane;
          pack<T> const term = load_pack<T>(dy + at * width + column, count, whole);
          for (int j = 0; j < pack_width<T>; ++j) sum[j] += term[j];
        }
      }
    __syncthreads();
  }
  if (count > 0) store_pack(out, sum, count, whole);
}

}  // namespace heddle::kernels
