// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/column_sums.cuh>
#include <support/reduce.cuh>

namespace heddle::kernels {

namespace detail {

/// The rest of RMS norm, by the block, for the row x of which `square` is what the squares of the caller's own packs
/// add up to. A thread reads only packs of its own, so it may have written them.
template <int Threads, class T, class Squares>
__device__ void scale_row(accumulator_t<T> square, T const* x, T const* gamma, accumulator_t<T> epsilon, int width,
                          bool whole, T* y, accumulator_t<T>* rstd, Squares& squares) {
  using A = accumulator_t<T>;
  constexpr int step = pack_width<T>;
  A const inverse = inverse_root(block_reduce<Threads>(square, squares, sum_of{}) / A(width) + epsilon);
  for (int i = static_cast<int>(threadIdx.x) * step; i < width; i += Threads * step) {
    pack<T> value = load_pack<T>(x + i, width - i, whole);
    pack<T> const gain = load_pack<T>(gamma + i, width - i, whole);
    for (int j = 0; j < step; ++j) value[j] = value[j] * inverse * gain[j];
    store_pack<T>(y + i, value, width - i, whole);
  }
  if (threadIdx.x == 0) *rstd = inverse;
}

}  // namespace detail

/// y[rows, width] = x·rstd·gamma, rstd = 1/√(mean(x²) + epsilon); keeps rstd[rows] for backward. Grid:
/// `row_grid`. `y` may be `x`. Zhang and Sennrich, arXiv 1910.07467 §4.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    rms_norm_forward(T const* x, T const* gamma, accumulator_t<T> epsilon, int width, T* y, accumulator_t<T>* rstd) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(squares, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  long long const row = blockIdx.x;
  x += row * width;
  y += row * width;
  bool const whole = whole_packs<T>(width, x, gamma, y);
  A square = 0;
  for (int i = static_cast<int>(threadIdx.x) * step; i < width; i += Threads * step) {
    pack<T> const value = load_pack<T>(x + i, width - i, whole);
    for (int j = 0; j < step; ++j) square += value[j] * value[j];
  }
  detail::scale_row<Threads>(square, x, gamma, epsilon, width, whole, y, rstd + row, squares);
}

/// s[rows, width] = base + x, and y[rows, width] its RMS norm: a residual connection and the norm after it in one pass.
/// s is what the next residual adds to and what backward takes for x, so the norm is of s as it is stored. `s` may be
/// `base` or `x`, `y` may be the other of them; all else as in `rms_norm_forward`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    residual_rms_norm_forward(T const* base, T const* x, T const* gamma, accumulator_t<T> epsilon, int width, T* s,
                              T* y, accumulator_t<T>* rstd) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(squares, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  long long const row = blockIdx.x;
  base += row * width;
  x += row * width;
  s += row * width;
  y += row * width;
  bool const whole = whole_packs<T>(width, base, x, gamma, s, y);
  A square = 0;
  for (int i = static_cast<int>(threadIdx.x) * step; i < width; i += Threads * step) {
    pack<T> value = load_pack<T>(base + i, width - i, whole);
    pack<T> const term = load_pack<T>(x + i, width - i, whole);
    for (int j = 0; j < step; ++j) {
      value[j] = A(T(value[j] + term[j]));
      square += value[j] * value[j];
    }
    store_pack<T>(s + i, value, width - i, whole);
  }
  detail::scale_row<Threads>(square, static_cast<T const*>(s), gamma, epsilon, width, whole, y, rstd + row, squares);
}

/// dx[rows, width], plus base[rows, width] unless that is null. With x̂ = x·rstd and g = dy·gamma,
///   dx = (g − x̂·mean(g·x̂))·rstd.
/// Each block has a share of the rows, in order, and leaves what they give to dgamma += Σ dy·x̂ in its row of
/// gamma_part[gridDim.x, width]; `add_parts` adds those up. Grid: `part_grid`. `dx`
/// may be `dy`, `x` or `base`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    rms_norm_backward(T const* x, T const* gamma, accumulator_t<T> const* rstd, T const* dy, T const* base,
                      long long rows, int width, T* dx, accumulator_t<T>* gamma_part) {
  using A = accumulator_t<T>;
  HEDDLE_SHARED(even, Threads / warp_lanes, A);
  HEDDLE_SHARED(odd, Threads / warp_lanes, A);
  constexpr int step = pack_width<T>;
  int const begin = static_cast<int>(threadIdx.x) * step;
  row_share const own(rows, blockIdx.x, gridDim.x);
  bool const whole = whole_packs<T>(width, x, gamma, dy, base, dx, gamma_part);
  gamma_part += static_cast<long long>(blockIdx.x) * width;
  for (int i = begin; i < width; i += Threads * step) store_pack<T>(gamma_part + i, pack<T>{}, width - i, whole);
  for (long long row = own.first; row < own.last; ++row) {
    long long const at = row * width;
    A const inverse = rstd[row];
    A projection = 0;
    for (int i = begin; i < width; i += Threads * step) {
      pack<T> const d = load_pack<T>(dy + at + i, width - i, whole), gain = load_pack<T>(gamma + i, width - i, whole);
      pack<T> const value = load_pack<T>(x + at + i, width - i, whole);
      pack<T> part = load_pack<T>(gamma_part + i, width - i, whole);
      for (int j = 0; j < step; ++j) {
        A const normal = value[j] * inverse;
        projection += d[j] * gain[j] * normal;
        part[j] += d[j] * normal;
      }
      store_pack<T>(gamma_part + i, part, width - i, whole);
    }
    // Two arrays by turns: a slow warp may still read what the row before left, and no further barrier is needed.
    projection = (row & 1) == 0 ? block_reduce<Threads>(projection, even, sum_of{})
                                : block_reduce<Threads>(projection, odd, sum_of{});
    A const slope = projection / A(width);
    for (int i = begin; i < width; i += Threads * step) {
      pack<T> const d = load_pack<T>(dy + at + i, width - i, whole), gain = load_pack<T>(gamma + i, width - i, whole);
      pack<T> value = load_pack<T>(x + at + i, width - i, whole);
      for (int j = 0; j < step; ++j) value[j] = (d[j] * gain[j] - value[j] * inverse * slope) * inverse;
      if (base != nullptr) {
        pack<T> const term = load_pack<T>(base + at + i, width - i, whole);
        for (int j = 0; j < step; ++j) value[j] += term[j];
      }
      store_pack<T>(dx + at + i, value, width - i, whole);
    }
  }
}

}  // namespace heddle::kernels
