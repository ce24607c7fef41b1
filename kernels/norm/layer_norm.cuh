// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/column_sums.cuh>
#include <support/reduce.cuh>

namespace heddle::kernels {

namespace detail {

/// The rest of layer norm, by the block, for the row x of which `sum` is what the caller's own packs add up to. x is
/// read twice more, since E[x²] − E[x]² would cancel; by then it is in the cache. A thread reads only packs of its own,
/// so it may have written them.
template <int Threads, class T, class Sums, class Squares>
__device__ void normalise_row(accumulator_t<T> sum, T const* x, T const* gamma, T const* beta, accumulator_t<T> epsilon,
                              int width, bool whole, T* y, accumulator_t<T>* mean, accumulator_t<T>* rstd, Sums& sums,
                              Squares& squares) {
  using A = accumulator_t<T>;
  constexpr int step = pack_width<T>;
  int const begin = static_cast<int>(threadIdx.x) * step;
  A const average = block_reduce<Threads>(sum, sums, sum_of{}) / A(width);
  A square = 0;
  for (int i = begin; i < width; i += Threads * step) {
    pack<T> const value = load_pack<T>(x + i, width - i, whole);
    for (int j = 0; j < step; ++j) {
      A const centred = value[j] - average;
      if (j < width - i) square += centred * centred;
    }
  }
  A const inverse = inverse_root(block_reduce<Threads>(square, squares, sum_of{}) / A(width) + epsilon);
  for (int i = begin; i < width; i += Threads * step) {
    pack<T> value = load_pack<T>(x + i, width - i, whole);
    pack<T> const gain = load_pack<T>(gamma + i, width - i, whole);
    for (int j = 0; j < step; ++j) value[j] = (value[j] - average) * inverse * gain[j];
    if (beta != nullptr) {
      pack<T> const offset = load_pack<T>(beta + i, width - i, whole);
      for (int j = 0; j < step; ++j) value[j] += offset[j];
    }
    store_pack<T>(y + i, value, width - i, whole);
  }
  if (threadIdx.x == 0) {
    *mean = average;
    *rstd = inverse;
  }
}

}  // namespace detail

/// y[rows, width] = (x − mean)·rstd·gamma + beta, rstd = 1/√(variance + epsilon) with the biased variance; keeps
/// mean[rows] and rstd[rows] for backward. Grid: `row_grid`. `beta` may be null; `y` may be `x`. Ba et al.,
/// arXiv 1607.06450 §3.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    layer_norm_forward(T const* x, T const* gamma, T const* beta, accumulator_t<T> epsilon, int width, T* y,
                       accumulator_t<T>* mean, accumulator_t<T>* rstd) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(sums, Threads / warp_lanes, A);
  HEDDLE_SHARED(squares, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  long long const row = blockIdx.x;
  x += row * width;
  y += row * width;
  bool const whole = whole_packs<T>(width, x, gamma, beta, y);
  A sum = 0;
  for (int i = static_cast<int>(threadIdx.x) * step; i < width; i += Threads * step) {
    pack<T> const value = load_pack<T>(x + i, width - i, whole);
    for (int j = 0; j < step; ++j) sum += value[j];
  }
  detail::normalise_row<Threads>(sum, x, gamma, beta, epsilon, width, whole, y, mean + row, rstd + row, sums, squares);
}

/// s[rows, width] = base + x, and y[rows, width] its layer norm: a residual connection and the norm after it in one
/// pass. s is what the next residual adds to and what backward takes for x, so the norm is of s as it is stored. `s`
/// may be `base` or `x`, `y` may be the other of them; all else as in `layer_norm_forward`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    residual_layer_norm_forward(T const* base, T const* x, T const* gamma, T const* beta, accumulator_t<T> epsilon,
                                int width, T* s, T* y, accumulator_t<T>* mean, accumulator_t<T>* rstd) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(sums, Threads / warp_lanes, A);
  HEDDLE_SHARED(squares, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  long long const row = blockIdx.x;
  base += row * width;
  x += row * width;
  s += row * width;
  y += row * width;
  bool const whole = whole_packs<T>(width, base, x, gamma, beta, s, y);
  A sum = 0;
  for (int i = static_cast<int>(threadIdx.x) * step; i < width; i += Threads * step) {
    pack<T> value = load_pack<T>(base + i, width - i, whole);
    pack<T> const term = load_pack<T>(x + i, width - i, whole);
    for (int j = 0; j < step; ++j) {
      value[j] = A(T(value[j] + term[j]));
      sum += value[j];
    }
    store_pack<T>(s + i, value, width - i, whole);
  }
  detail::normalise_row<Threads>(sum, static_cast<T const*>(s), gamma, beta, epsilon, width, whole, y, mean + row,
                                 rstd + row, sums, squares);
}

/// dx[rows, width], plus base[rows, width] unless that is null. With x̂ = (x − mean)·rstd and g = dy·gamma,
///   dx = (g − mean(g) − x̂·mean(g·x̂))·rstd.
/// Each block has a share of the rows, in order, and leaves what they give to the gradients of the parameters,
/// dgamma += Σ dy·x̂ and dbeta += Σ dy, in its row of gamma_part[gridDim.x, width] and, unless null,
/// beta_part[gridDim.x, width]; `add_parts` adds those up. A thread keeps its columns of them in the cache: registers
/// would tie the kernel to a width. Grid: `part_grid`. `dx` may be `dy`, `x` or
/// `base`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    layer_norm_backward(T const* x, T const* gamma, accumulator_t<T> const* mean, accumulator_t<T> const* rstd,
                        T const* dy, T const* base, long long rows, int width, T* dx, accumulator_t<T>* gamma_part,
                        accumulator_t<T>* beta_part) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(sums, Threads / warp_lanes, A);
  HEDDLE_SHARED(projections, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  int const begin = static_cast<int>(threadIdx.x) * step;
  row_share const own(rows, blockIdx.x, gridDim.x);
  bool const whole = whole_packs<T>(width, x, gamma, dy, base, dx, gamma_part, beta_part);
  gamma_part += static_cast<long long>(blockIdx.x) * width;
  if (beta_part != nullptr) beta_part += static_cast<long long>(blockIdx.x) * width;
  for (int i = begin; i < width; i += Threads * step) {
    store_pack<T>(gamma_part + i, pack<T>{}, width - i, whole);
    if (beta_part != nullptr) store_pack<T>(beta_part + i, pack<T>{}, width - i, whole);
  }
  for (long long row = own.first; row < own.last; ++row) {
    long long const at = row * width;
    A const average = mean[row], inverse = rstd[row];
    A sum = 0, projection = 0;
    for (int i = begin; i < width; i += Threads * step) {
      pack<T> const d = load_pack<T>(dy + at + i, width - i, whole), gain = load_pack<T>(gamma + i, width - i, whole);
      pack<T> const value = load_pack<T>(x + at + i, width - i, whole);
      pack<T> part = load_pack<T>(gamma_part + i, width - i, whole);
      for (int j = 0; j < step; ++j) {
        A const normal = (value[j] - average) * inverse, scaled = d[j] * gain[j];
        sum += scaled;
        projection += scaled * normal;
        part[j] += d[j] * normal;
      }
      store_pack<T>(gamma_part + i, part, width - i, whole);
      if (beta_part != nullptr) {
        part = load_pack<T>(beta_part + i, width - i, whole);
        for (int j = 0; j < step; ++j) part[j] += d[j];
        store_pack<T>(beta_part + i, part, width - i, whole);
      }
    }
    A const shift = block_reduce<Threads>(sum, sums, sum_of{}) / A(width);
    A const slope = block_reduce<Threads>(projection, projections, sum_of{}) / A(width);
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
