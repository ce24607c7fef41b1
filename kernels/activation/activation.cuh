// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <activation/functions.cuh>
#include <support/column_sums.cuh>
#include <support/for_each_pack.cuh>

// `Activation` is one of functions.cuh. An output may be an input of the same shape. No size is 0.
namespace heddle::kernels {

namespace detail {
/// sum += the pack at in + i, unless `in` is null.
template <class T>
__device__ void add_pack(pack<T>& sum, T const* in, long long i, int count, bool whole) {
  if (in == nullptr) return;
  pack<T> const term = load_pack<T>(in + i, count, whole);
  for (int j = 0; j < pack_width<T>; ++j) sum[j] += term[j];
}
}  // namespace detail

/// y[n] = act(x). Grid: `pack_grid`.
template <class T, class Activation, int Threads>
__global__ void __launch_bounds__(Threads) activation_forward(T const* x, long long n, T* y) {
  for_each_pack<T, Threads>(n, aligned_for_packs(x, y), [=](long long i, int count, bool whole) {
    pack<T> value = load_pack<T>(x + i, count, whole);
    for (int j = 0; j < pack_width<T>; ++j) value[j] = Activation::at(value[j]).value;
    store_pack<T>(y + i, value, count, whole);
  });
}

/// dx[n] = dy·act'(x), from the input of `activation_forward`, with its grid.
template <class T, class Activation, int Threads>
__global__ void __launch_bounds__(Threads) activation_backward(T const* x, T const* dy, long long n, T* dx) {
  for_each_pack<T, Threads>(n, aligned_for_packs(x, dy, dx), [=](long long i, int count, bool whole) {
    pack<T> value = load_pack<T>(x + i, count, whole);
    pack<T> const d = load_pack<T>(dy + i, count, whole);
    for (int j = 0; j < pack_width<T>; ++j) value[j] = d[j] * Activation::at(value[j]).slope;
    store_pack<T>(dx + i, value, count, whole);
  });
}

/// y[rows, width] = bias[width] in each row, plus each of base and x, both [rows, width], that is not null.
/// Grid: `column_grid`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    biased_sum(T const* bias, T const* base, T const* x, long long rows, int width, T* y) {
  columns_of_thread<T, Threads> const own(rows, width);
  if (own.count <= 0) return;
  bool const whole = whole_packs<T>(width, bias, base, x, y);
  pack<T> const constant = load_pack<T>(bias + own.column, own.count, whole);
  for (long long row = own.first; row < own.last; ++row) {
    long long const at = row * width + own.column;
    pack<T> sum = constant;
    detail::add_pack(sum, base, at, own.count, whole);
    detail::add_pack(sum, x, at, own.count, whole);
    store_pack<T>(y + at, sum, own.count, whole);
  }
}

/// y[rows, width] = act(x + bias[width]), the sum not rounded to T. Backward needs x and bias again.
/// Grid: `column_grid`.
template <class T, class Activation, int Threads>
__global__ void __launch_bounds__(Threads)
    biased_activation_forward(T const* x, T const* bias, long long rows, int width, T* y) {
  columns_of_thread<T, Threads> const own(rows, width);
  if (own.count <= 0) return;
  bool const whole = whole_packs<T>(width, x, bias, y);
  pack<T> const offset = load_pack<T>(bias + own.column, own.count, whole);
  for (long long row = own.first; row < own.last; ++row) {
    long long const at = row * width + own.column;
    pack<T> value = load_pack<T>(x + at, own.count, whole);
    for (int j = 0; j < pack_width<T>; ++j) value[j] = Activation::at(value[j] + offset[j]).value;
    store_pack<T>(y + at, value, own.count, whole);
  }
}

/// dx[rows, width] = dy·act'(x + bias[width]); and, unless `part` is null, the first stage of dbias += Σ over the rows
/// of dx: part[gridDim.y, width], which `add_parts` adds up. It sums dx as stored, so `column_sums` of dx with the same
/// gridDim.y has the same bits. Grid: `column_grid`.
template <class T, class Activation, int Threads>
__global__ void __launch_bounds__(Threads)
    biased_activation_backward(T const* x, T const* bias, T const* dy, long long rows, int width, T* dx,
                               accumulator_t<T>* part) {
  using A = accumulator_t<T>;
  columns_of_thread<T, Threads> const own(rows, width);
  if (own.count <= 0) return;
  bool const whole = whole_packs<T>(width, x, bias, dy, dx, part);
  pack<T> const offset = load_pack<T>(bias + own.column, own.count, whole);
  pack<T> sum{};
  for (long long row = own.first; row < own.last; ++row) {
    long long const at = row * width + own.column;
    pack<T> value = load_pack<T>(x + at, own.count, whole);
    pack<T> const d = load_pack<T>(dy + at, own.count, whole);
    for (int j = 0; j < pack_width<T>; ++j) {
      // Not fused with the sum, which takes dx as stored.
      value[j] = A(T(math::product(d[j], Activation::at(value[j] + offset[j]).slope)));
      sum[j] += value[j];
    }
    store_pack<T>(dx + at, value, own.count, whole);
  }
  if (part != nullptr)
    store_pack<T>(part + static_cast<long long>(blockIdx.y) * width + own.column, sum, own.count, whole);
}

/// y[rows, width] = act(gate)·up, with x[rows, 2, width] = (gate, up): SwiGLU with silu. Shazeer, arXiv 2002.05202.
/// Backward needs x again. Grid: `column_grid`.
template <class T, class Activation, int Threads>
__global__ void __launch_bounds__(Threads) gated_forward(T const* x, long long rows, int width, T* y) {
  columns_of_thread<T, Threads> const own(rows, width);
  if (own.count <= 0) return;
  bool const whole = whole_packs<T>(width, x, y);
  for (long long row = own.first; row < own.last; ++row) {
    T const* const gates = x + 2 * row * width + own.column;
    pack<T> const gate = load_pack<T>(gates, own.count, whole);
    pack<T> up = load_pack<T>(gates + width, own.count, whole);
    for (int j = 0; j < pack_width<T>; ++j) up[j] *= Activation::at(gate[j]).value;
    store_pack<T>(y + row * width + own.column, up, own.count, whole);
  }
}

/// dx[rows, 2, width] = (dy·up·act'(gate), dy·act(gate)) of `gated_forward`, with its grid; dx may be x.
template <class T, class Activation, int Threads>
__global__ void __launch_bounds__(Threads) gated_backward(T const* x, T const* dy, long long rows, int width, T* dx) {
  columns_of_thread<T, Threads> const own(rows, width);
  if (own.count <= 0) return;
  bool const whole = whole_packs<T>(width, x, dy, dx);
  for (long long row = own.first; row < own.last; ++row) {
    long long const at = 2 * row * width + own.column;
    pack<T> gate = load_pack<T>(x + at, own.count, whole), up = load_pack<T>(x + at + width, own.count, whole);
    pack<T> const d = load_pack<T>(dy + row * width + own.column, own.count, whole);
    for (int j = 0; j < pack_width<T>; ++j) {
      activated<accumulator_t<T>> const act = Activation::at(gate[j]);
      gate[j] = d[j] * up[j] * act.slope;
      up[j] = d[j] * act.value;
    }
    store_pack<T>(dx + at, gate, own.count, whole);
    store_pack<T>(dx + at + width, up, own.count, whole);
  }
}

}  // namespace heddle::kernels
