// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/column_sums.cuh>
#include <support/math.cuh>
#include <support/reduce.cuh>

/// Layer norm (`Centred`; Ba et al., arXiv 1607.06450 §3) and RMS norm (Zhang and Sennrich, arXiv 1910.07467 §4), which
/// is the same without a mean: its `beta`, `mean` and `beta_part` are null.
namespace heddle::kernels {

/// y[rows, width] = (x − mean)·rstd·gamma + beta, rstd = 1/√(variance + epsilon) with the biased variance about the
/// mean or, not centred, about 0; keeps mean[rows] and rstd[rows] for backward. `beta` may be null; `y` may be `x`.
///
/// Unless `base` is null the norm is of s[rows, width] = base + x: a residual connection and the norm after it in one
/// pass. s is what the next residual adds to and what backward takes for x, so the norm is of s as it is stored. `s`
/// may be `base` or `x`, `y` may be the other of them.
///
/// Grid: `row_grid`. A row is read two or three times, since E[x²] − E[x]² would cancel; the first has it in the cache.
/// A thread reads only packs of its own, so it may have written them.
template <class T, bool Centred, int Threads>
__global__ void __launch_bounds__(Threads)
    norm_forward(T const* base, T const* x, T const* gamma, T const* beta, accumulator_t<T> epsilon, int width, T* s,
                 T* y, accumulator_t<T>* mean, accumulator_t<T>* rstd) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(squares, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  int const begin = static_cast<int>(threadIdx.x) * step;
  long long const row = blockIdx.x, at = row * width;
  bool const whole = whole_packs<T>(width, base, x, gamma, beta, s, y);
  A sum = 0, square = 0;
  for (int i = begin; i < width; i += Threads * step) {
    pack<T> value = load_pack<T>(x + at + i, width - i, whole);
    if (base != nullptr) {
      pack<T> const under = load_pack<T>(base + at + i, width - i, whole);
      for (int j = 0; j < step; ++j) value[j] = A(T(under[j] + value[j]));
      store_pack<T>(s + at + i, value, width - i, whole);
    }
    for (int j = 0; j < step; ++j) (Centred ? sum : square) += Centred ? value[j] : value[j] * value[j];
  }
  T const* const in = base != nullptr ? s + at : x + at;
  A average = 0;
  if constexpr (Centred) {
    HEDDLE_SHARED(sums, Threads / warp_lanes, A);
    average = block_reduce<Threads>(sum, sums, sum_of{}) / A(width);
    for (int i = begin; i < width; i += Threads * step) {
      pack<T> const value = load_pack<T>(in + i, width - i, whole);
      for (int j = 0; j < step; ++j) {
        A const centred = value[j] - average;
        if (j < width - i) square += centred * centred;
      }
    }
  }
  A const inverse = A(1) / math::sqrt(block_reduce<Threads>(square, squares, sum_of{}) / A(width) + epsilon);
  for (int i = begin; i < width; i += Threads * step) {
    pack<T> value = load_pack<T>(in + i, width - i, whole);
    pack<T> const gain = load_pack<T>(gamma + i, width - i, whole);
    for (int j = 0; j < step; ++j) value[j] = (value[j] - average) * inverse * gain[j];
    if (beta != nullptr) {
      pack<T> const offset = load_pack<T>(beta + i, width - i, whole);
      for (int j = 0; j < step; ++j) value[j] += offset[j];
    }
    store_pack<T>(y + at + i, value, width - i, whole);
  }
  if (threadIdx.x == 0) {
    if constexpr (Centred) mean[row] = average;
    rstd[row] = inverse;
  }
}

/// dx[rows, width], plus base[rows, width] unless that is null. With x̂ = (x − mean)·rstd and g = dy·gamma,
///   dx = (g − mean(g) − x̂·mean(g·x̂))·rstd,   without mean(g) where it is not centred.
/// Each block has a share of the rows, in order, and leaves what they give to the gradients of the parameters,
/// dgamma += Σ dy·x̂ and dbeta += Σ dy, in its row of gamma_part[parts, width] and
/// beta_part[parts, width], each unless it is null (frozen parameters); `add_parts` adds those up. A thread keeps its
/// columns of them in the cache: registers would tie the kernel to a width. Grid: `part_grid`. `dx` may be `dy`, `x` or
/// `base`.
template <class T, bool Centred, int Threads>
__global__ void __launch_bounds__(Threads)
    norm_backward(T const* x, T const* gamma, accumulator_t<T> const* mean, accumulator_t<T> const* rstd, T const* dy,
                  T const* base, long long rows, int width, T* dx, accumulator_t<T>* gamma_part,
                  accumulator_t<T>* beta_part) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(even, Threads / warp_lanes, A);
  HEDDLE_SHARED(odd, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  int const begin = static_cast<int>(threadIdx.x) * step;
  row_share const own(rows, blockIdx.x, gridDim.x);
  bool const whole = whole_packs<T>(width, x, gamma, dy, base, dx, gamma_part, beta_part);
  bool const trains = gamma_part != nullptr;
  if (trains) gamma_part += static_cast<long long>(blockIdx.x) * width;
  if (beta_part != nullptr) beta_part += static_cast<long long>(blockIdx.x) * width;
  for (int i = begin; i < width; i += Threads * step) {
    if (trains) store_pack<T>(gamma_part + i, pack<T>{}, width - i, whole);
    if (beta_part != nullptr) store_pack<T>(beta_part + i, pack<T>{}, width - i, whole);
  }
  for (long long row = own.first; row < own.last; ++row) {
    long long const at = row * width;
    A const average = Centred ? mean[row] : A(0), inverse = rstd[row];
    A sum = 0, projection = 0;
    for (int i = begin; i < width; i += Threads * step) {
      pack<T> const d = load_pack<T>(dy + at + i, width - i, whole), gain = load_pack<T>(gamma + i, width - i, whole);
      pack<T> const value = load_pack<T>(x + at + i, width - i, whole);
      pack<T> part = trains ? load_pack<T>(gamma_part + i, width - i, whole) : pack<T>{};
      for (int j = 0; j < step; ++j) {
        A const normal = (value[j] - average) * inverse, scaled = d[j] * gain[j];
        if constexpr (Centred) sum += scaled;
        projection += scaled * normal;
        part[j] += d[j] * normal;
      }
      if (trains) store_pack<T>(gamma_part + i, part, width - i, whole);
      if (beta_part != nullptr) {
        part = load_pack<T>(beta_part + i, width - i, whole);
        for (int j = 0; j < step; ++j) part[j] += d[j];
        store_pack<T>(beta_part + i, part, width - i, whole);
      }
    }
    // Two arrays by turns: a slow warp may still read what the sum before left, and no further barrier is needed.
    A shift = 0;
    if constexpr (Centred) shift = block_reduce<Threads>(sum, even, sum_of{}) / A(width);
    A const slope = (Centred || (row & 1) != 0 ? block_reduce<Threads>(projection, odd, sum_of{})
                                               : block_reduce<Threads>(projection, even, sum_of{})) /
                    A(width);
    for (int i = begin; i < width; i += Threads * step) {
      pack<T> const d = load_pack<T>(dy + at + i, width - i, whole), gain = load_pack<T>(gamma + i, width - i, whole);
      pack<T> value = load_pack<T>(x + at + i, width - i, whole);
      for (int j = 0; j < step; ++j) {
        A const normal = (value[j] - average) * inverse;
        value[j] = (d[j] * gain[j] - shift - normal * slope) * inverse;
      }
      if (base != nullptr) {
        pack<T> const term = load_pack<T>(base + at + i, width - i, whole);
        for (int j = 0; j < step; ++j) value[j] += term[j];
      }
      store_pack<T>(dx + at + i, value, width - i, whole);
    }
  }
}

}  // namespace heddle::kernels
