// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/elementary.hpp>
#include <heddle/tensor/activation_kind.hpp>

#include <cstddef>
#include <cstring>

namespace heddle::host {

namespace detail {

/// out[i] = f(in[i]…) for all i, in one pass; `out` may be any of the inputs.
template <class T, class F, class... In>
inline void map(std::size_t n, T* out, F f, In const*... in) {
  for_each_group<T>(n, [&](std::size_t i, auto count) { store<T>(out + i, f(load(in + i, count)...), count); });
}

/// y = act(x) and slope = act'(x); what is not used is removed by the compiler.
///
/// gelu_tanh is ½x(1 + tanh u) = x·sigmoid(2u): that form needs one exponential and does not cancel for negative x.
template <class T, activation_kind Kind>
inline void activate(lanes<T> const& x, lanes<T>& y, lanes<T>& slope) {
  if constexpr (Kind == activation_kind::gelu_tanh) {
    constexpr T two_root = T(1.59576912160573071176);  // 2·√(2/π)
    constexpr T cubic = T(0.044715);
    lanes<T> const square = x * x;
    lanes<T> const s = sigmoid<T>(two_root * x * (T(1) + cubic * square));
    y = x * s;
    slope = s + y * (T(1) - s) * (two_root * (T(1) + 3 * cubic * square));
  } else if constexpr (Kind == activation_kind::gelu_erf) {
    normal<T> const at = standard_normal<T>(x);
    y = x * at.distribution;
    slope = at.distribution + x * at.density;
  } else if constexpr (Kind == activation_kind::silu) {
    lanes<T> const s = sigmoid<T>(x);
    y = x * s;
    slope = s + y * (T(1) - s);
  } else {
    static_assert(Kind == activation_kind::relu);
    // A NaN stays one: max(x, 0) would hide it.
    y = x < T(0) ? lanes<T>{} : x;
    slope = x > T(0) ? broadcast(T(1)) : lanes<T>{};
  }
}

template <class T>
inline void add_to(std::size_t n, T const* x, T* out) {
  map(
      n, out, [](lanes<T> const& a, lanes<T> const& b) -> lanes<T> { return a + b; }, static_cast<T const*>(out), x);
}

template <class T>
inline void add_bias(std::size_t rows, std::size_t width, T const* bias, T* x) {
  for (std::size_t row = 0; row < rows; ++row) add_to(width, bias, x + row * width);
}

/// Column sums, rows in order: a block of columns is summed in registers down all rows.
template <class T>
inline void bias_gradient(std::size_t rows, std::size_t width, T const* dy, T* db) {
  constexpr std::size_t w = lane_count_v<T>;
  std::size_t column = 0;
  for (; column + 8 * w <= width; column += 8 * w) {
    lanes<T> sum[8];
    for (std::size_t j = 0; j < 8; ++j) sum[j] = load(db + column + j * w, whole<T>{});
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t j = 0; j < 8; ++j) sum[j] += load(dy + row * width + column + j * w, whole<T>{});
    for (std::size_t j = 0; j < 8; ++j) store<T>(db + column + j * w, sum[j]);
  }
  for_each_group<T>(width - column, [&](std::size_t i, auto count) {
    lanes<T> sum = load(db + column + i, count);
    for (std::size_t row = 0; row < rows; ++row) sum += load(dy + row * width + column + i, count);
    store<T>(db + column + i, sum, count);
  });
}

template <class T, activation_kind Kind>
inline void activation(std::size_t n, T const* x, T* y) {
  map(
      n, y,
      [](lanes<T> const& a) -> lanes<T> {
        lanes<T> value, slope;
        activate<T, Kind>(a, value, slope);
        return value;
      },
      x);
}

template <class T, activation_kind Kind>
inline void activation_backward(std::size_t n, T const* x, T const* dy, T* dx) {
  map(
      n, dx,
      [](lanes<T> const& a, lanes<T> const& d) -> lanes<T> {
        lanes<T> value, slope;
        activate<T, Kind>(a, value, slope);
        return d * slope;
      },
      x, dy);
}

template <class T, activation_kind Kind>
inline void gated(std::size_t rows, std::size_t width, T const* x, T* y) {
  for (std::size_t row = 0; row < rows; ++row)
    map(
        width, y + row * width,
        [](lanes<T> const& gate, lanes<T> const& up) -> lanes<T> {
          lanes<T> value, slope;
          activate<T, Kind>(gate, value, slope);
          return value * up;
        },
        x + 2 * row * width, x + (2 * row + 1) * width);
}

template <class T, activation_kind Kind>
inline void gated_backward(std::size_t rows, std::size_t width, T const* x, T const* dy, T* dx) {
  for (std::size_t row = 0; row < rows; ++row) {
    T const *const gate = x + 2 * row * width, *const up = gate + width;
    T *const dgate = dx + 2 * row * width, *const dup = dgate + width;
    for_each_group<T>(width, [&](std::size_t i, auto count) {
      lanes<T> const d = load(dy + row * width + i, count);
      lanes<T> const factor = load(up + i, count);
      lanes<T> value, slope;
      activate<T, Kind>(load(gate + i, count), value, slope);
      store<T>(dgate + i, d * factor * slope, count);
      store<T>(dup + i, d * value, count);
    });
  }
}

}  // namespace detail

/// Element-by-element primitives: one pass each, no scratch. An output may be the same array as an input of the same
/// shape; other overlaps are not allowed.
struct pointwise {
  /// out[N] = x + y
  template <std::size_t N, class T>
  static void add(T const* x, T const* y, T* out) {
    using detail::lanes;
    detail::map(
        N, out, [](lanes<T> const& a, lanes<T> const& b) -> lanes<T> { return a + b; }, x, y);
  }

  /// out[N] += x
  template <std::size_t N, class T>
  static void add_to(T const* x, T* out) {
    detail::add_to(N, x, out);
  }

  /// x[N] *= factor
  template <std::size_t N, class T>
  static void scale(T factor, T* x) {
    using detail::lanes;
    detail::map(
        N, x, [factor](lanes<T> const& a) -> lanes<T> { return a * factor; }, static_cast<T const*>(x));
  }

  /// x[N] = value
  template <std::size_t N, class T>
  static void fill(T value, T* x) {
    for (std::size_t i = 0; i < N; ++i) x[i] = value;
  }

  /// out[N] = x
  template <std::size_t N, class T>
  static void copy(T const* x, T* out) {
    if constexpr (N > 0) std::memmove(out, x, N * sizeof(T));
  }

  /// x[Rows,Width] += bias[Width] in each row
  template <std::size_t Rows, std::size_t Width, class T>
  static void add_bias(T const* bias, T* x) {
    detail::add_bias(Rows, Width, bias, x);
  }

  /// db[Width] += Σ over the rows of dy[Rows,Width], in the order of the rows
  template <std::size_t Rows, std::size_t Width, class T>
  static void bias_gradient(T const* dy, T* db) {
    detail::bias_gradient(Rows, Width, dy, db);
  }

  /// y[N] = act(x); see `activation_kind` for the formulas.
  template <activation_kind Kind, std::size_t N, class T>
  static void activation(T const* x, T* y) {
    detail::activation<T, Kind>(N, x, y);
  }

  /// dx[N] = dy·act'(x), from the input x of `activation`; relu's derivative at 0 is 0.
  template <activation_kind Kind, std::size_t N, class T>
  static void activation_backward(T const* x, T const* dy, T* dx) {
    detail::activation_backward<T, Kind>(N, x, dy, dx);
  }

  /// y[Rows,Width] = act(gate)·up, with x[Rows,2,Width] = (gate, up): the gated linear unit of Shazeer, arXiv
  /// 2002.05202.
  template <activation_kind Kind, std::size_t Rows, std::size_t Width, class T>
  static void gated(T const* x, T* y) {
    detail::gated<T, Kind>(Rows, Width, x, y);
  }

  /// dx[Rows,2,Width] of `gated`, from dy[Rows,Width]; dx may be x.
  template <activation_kind Kind, std::size_t Rows, std::size_t Width, class T>
  static void gated_backward(T const* x, T const* dy, T* dx) {
    detail::gated_backward<T, Kind>(Rows, Width, x, dy, dx);
  }
};

}  // namespace heddle::host
