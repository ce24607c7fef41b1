// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/vector.cuh>

namespace heddle::kernels {

/// What share `part` of `parts` has of `rows` rows: from `first` to before `last`, in order; none if there are fewer
/// rows than parts.
struct row_share {
  long long first, last;
  __device__ row_share(long long rows, long long part, long long parts)
      : first(rows * part / parts), last(rows * (part + 1) / parts) {}
};

/// A thread of a `column_grid` has the pack of columns from `column` on, of which
/// `count` (at most 0: none) exist, in the share blockIdx.y of the rows. What belongs to a column it loads once.
template <class T, int Threads>
struct columns_of_thread : row_share {
  int column, count;
  __device__ columns_of_thread(long long rows, int width)
      : row_share(rows, blockIdx.y, gridDim.y),
        column((static_cast<int>(blockIdx.x) * Threads + static_cast<int>(threadIdx.x)) * pack_width<T>),
        count(width - column) {}
};

/// The first stage of db[width] += Σ over the rows of dy[rows, width]: part[gridDim.y, width] is what each share of the
/// rows adds up to, rows in order. Grid: `column_grid`; the order depends on `parts` alone.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) column_sums(T const* dy, long long rows, int width, accumulator_t<T>* part) {
  columns_of_thread<T, Threads> const own(rows, width);
  if (own.count <= 0) return;
  bool const whole = whole_packs<T>(width, dy, part);
  pack<T> sum{};
  for (long long row = own.first; row < own.last; ++row) {
    pack<T> const d = load_pack<T>(dy + row * width + own.column, own.count, whole);
    for (int j = 0; j < pack_width<T>; ++j) sum[j] += d[j];
  }
  store_pack<T>(part + static_cast<long long>(blockIdx.y) * width + own.column, sum, own.count, whole);
}

/// The second stage, of these column sums and of a norm's gradients: out[width] += Σ over part[parts, width]. Eight
/// threads a column, each an eighth of the parts in order, so the order depends on `parts` alone. `Gradient` is the
/// type in which gradients are summed over micro-batches, which need not be that of the activations: a narrow one stops
/// growing (known-faults BF-3). Grid: `add_parts_grid`.
template <class Gradient, int Threads>
__global__ void __launch_bounds__(Threads)
    add_parts(accumulator_t<Gradient> const* part, int parts, int width, Gradient* out) {
  using A = accumulator_t<Gradient>;
  static_assert(Threads % 32 == 0);
  constexpr int shares = 8, columns = Threads / shares;
  HEDDLE_SHARED(sums, Threads, A);
  int const thread = static_cast<int>(threadIdx.x), share = thread / columns;
  int const column = static_cast<int>(blockIdx.x) * columns + thread % columns;
  A sum = 0;
  if (column < width) {
    row_share const own(parts, share, shares);
    for (long long p = own.first; p < own.last; ++p) sum += part[p * width + column];
  }
  sums[thread] = sum;
  __syncthreads();
  if (thread >= columns || column >= width) return;
  sum = sums[thread];
  for (int s = 1; s < shares; ++s) sum += sums[s * columns + thread];
  out[column] = Gradient(A(out[column]) + sum);
}

}  // namespace heddle::kernels
