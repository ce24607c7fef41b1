// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/deal.hpp>
#include <heddle/backend/host/elementary.hpp>
#include <heddle/tensor/activation_kind.hpp>
#include <heddle/tensor/index_map.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace heddle::host {

namespace detail {

/// Elements that are worth another thread: of a sum, which memory bounds, and of a function, some nanoseconds each.
inline constexpr std::size_t sum_grain = 16384, function_grain = 4096;

/// out[i] = f(in[i]…) for all i, in one pass; `out` may be any of the inputs.
template <class T, class F, class... In>
inline void map(std::size_t n, T* out, F f, In const*... in) {
  for_each_group<T>(n, [&](std::size_t i, auto count) { store<T>(out + i, f(load(in + i, count)...), count); });
}
/// The same, dealt to the threads of the rank.
template <class T, class F, class... In>
inline void map_dealt(std::size_t grain, std::size_t n, T* out, F f, In const*... in) {
  deal_ranges(n, grain, [&](std::size_t begin, std::size_t end) { map(end - begin, out + begin, f, (in + begin)...); });
}
/// f(first, last) for pieces of `rows` rows, each worth `cost` elements.
template <class F>
inline void deal_rows(std::size_t rows, std::size_t cost, std::size_t grain, F const& f) {
  deal_ranges(rows, cost >= grain ? 1 : grain / (cost == 0 ? 1 : cost), f);
}

/// y = act(x) and slope = act'(x); what is not used is removed by the compiler.
///
/// gelu_tanh is ½x(1 + tanh u) = x·sigmoid(2u): that form needs one exponential and does not cancel for negative x.
template <class T, activation_kind Kind>
inline void activate(lanes<T> const& x, lanes<T>& y, lanes<T>& slope) {
  if constexpr (Kind == activation_kind::gelu_tanh) {
    constexpr T two_root = T(1.59576912160573071176);  // 2·√(2/π)
    constexpr T cubic = T(0.044715);
    // Beyond it the sigmoid is 0 or 1, and the slope would be 0 times infinity.
    lanes<T> const most = lanes<T>{} + T(1e6);
    lanes<T> square = x * x;
    square = square < most ? square : most;
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

template <class T, class X>
inline void add_to(std::size_t n, X const* x, T* out) {
  map(
      n, out, [](lanes<T> const& a, lanes<T> const& b) -> lanes<T> { return a + b; }, static_cast<T const*>(out), x);
}

template <class T, class... In>
inline void biased_sum(std::size_t rows, std::size_t width, T const* bias, T* y, In const*... in) {
  deal_rows(rows, width, sum_grain, [=](std::size_t row, std::size_t last) {
    for (; row < last; ++row)
      map(
          width, y + row * width, [](lanes<T> const& b, auto const&... term) -> lanes<T> { return ((b + ... + term)); },
          bias, (in + row * width)...);
  });
}

/// Sums of the columns `column`..`last - 1`, rows in order: a block of columns is summed in registers down all rows.
template <class T>
inline void column_sums(std::size_t rows, std::size_t width, T const* dy, T* db, std::size_t column, std::size_t last) {
  constexpr std::size_t w = lane_count_v<T>;
  for (; column + 8 * w <= last; column += 8 * w) {
    lanes<T> sum[8];
    for (std::size_t j = 0; j < 8; ++j) sum[j] = load(db + column + j * w, whole<T>{});
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t j = 0; j < 8; ++j) sum[j] += load(dy + row * width + column + j * w, whole<T>{});
    for (std::size_t j = 0; j < 8; ++j) store<T>(db + column + j * w, sum[j]);
  }
  for_each_group<T>(last - column, [&](std::size_t i, auto count) {
    lanes<T> sum = load(db + column + i, count);
    for (std::size_t row = 0; row < rows; ++row) sum += load(dy + row * width + column + i, count);
    store<T>(db + column + i, sum, count);
  });
}
template <class T>
inline void bias_gradient(std::size_t rows, std::size_t width, T const* dy, T* db) {
  // Whole cache lines of each row, and enough of them.
  constexpr std::size_t block = 8 * lane_count_v<T>;
  std::size_t const wanted = sum_grain / (rows == 0 ? 1 : rows);
  deal_ranges(width, wanted < block ? block : wanted / block * block,
              [=](std::size_t first, std::size_t last) { column_sums(rows, width, dy, db, first, last); });
}

template <class T, activation_kind Kind>
inline void activation(std::size_t n, T const* x, T* y) {
  map_dealt(
      function_grain, n, y,
      [](lanes<T> const& a) -> lanes<T> {
        lanes<T> value, slope;
        activate<accumulation_t<T>, Kind>(a, value, slope);
        return value;
      },
      x);
}

template <class T, activation_kind Kind>
inline void activation_backward(std::size_t n, T const* x, T const* dy, T* dx) {
  map_dealt(
      function_grain, n, dx,
      [](lanes<T> const& a, lanes<T> const& d) -> lanes<T> {
        lanes<T> value, slope;
        activate<accumulation_t<T>, Kind>(a, value, slope);
        return d * slope;
      },
      x, dy);
}

template <class T, activation_kind Kind>
inline void gated(std::size_t rows, std::size_t width, T const* x, T* y) {
  deal_rows(rows, width, function_grain, [=](std::size_t row, std::size_t last) {
    for (; row < last; ++row)
      map(
          width, y + row * width,
          [](lanes<T> const& gate, lanes<T> const& up) -> lanes<T> {
            lanes<T> value, slope;
            activate<accumulation_t<T>, Kind>(gate, value, slope);
            return value * up;
          },
          x + 2 * row * width, x + (2 * row + 1) * width);
  });
}

template <class T, activation_kind Kind>
inline void gated_backward(std::size_t rows, std::size_t width, T const* x, T const* dy, T* dx) {
  deal_rows(rows, width, function_grain, [=](std::size_t row, std::size_t last) {
    for (; row < last; ++row) {
      T const *const gate = x + 2 * row * width, *const up = gate + width;
      T *const dgate = dx + 2 * row * width, *const dup = dgate + width;
      for_each_group<T>(width, [&](std::size_t i, auto count) {
        lanes<T> const d = load(dy + row * width + i, count);
        lanes<T> const factor = load(up + i, count);
        lanes<T> value, slope;
        activate<accumulation_t<T>, Kind>(load(gate + i, count), value, slope);
        store<T>(dgate + i, d * factor * slope, count);
        store<T>(dup + i, d * value, count);
      });
    }
  });
}

// As in norm.hpp, nothing but the call is compiled for each size.
template <class T>
inline void add(std::size_t n, T const* x, T const* y, T* out) {
  map_dealt(
      sum_grain, n, out, [](lanes<T> const& a, lanes<T> const& b) -> lanes<T> { return a + b; }, x, y);
}

template <class T>
inline void add_to_dealt(std::size_t n, T const* x, T* out) {
  deal_ranges(n, sum_grain, [=](std::size_t begin, std::size_t end) { add_to(end - begin, x + begin, out + begin); });
}

template <class T>
inline void scale(std::size_t n, accumulation_t<T> factor, T* x) {
  map_dealt(
      sum_grain, n, x, [factor](lanes<T> const& a) -> lanes<T> { return a * factor; }, static_cast<T const*>(x));
}

template <class T>
inline void copy(std::size_t n, T const* x, T* out) {
  deal_ranges(n, sum_grain, [=](std::size_t begin, std::size_t end) {
    std::memcpy(out + begin, x + begin, (end - begin) * sizeof(T));
  });
}

}  // namespace detail

/// Element-by-element primitives: one pass each, no scratch, dealt to the threads of the rank. An output may be the
/// same array as an input of the same shape; other overlaps are not allowed.
struct pointwise {
  /// out[N] = x + y
  template <std::size_t N, class T>
  static void add(T const* x, T const* y, T* out) {
    detail::add(N, x, y, out);
  }

  /// out[N] += x
  template <std::size_t N, class T>
  static void add_to(T const* x, T* out) {
    detail::add_to_dealt(N, x, out);
  }

  /// x[N] *= factor
  template <std::size_t N, class T>
  static void scale(accumulation_t<T> factor, T* x) {
    detail::scale(N, factor, x);
  }

  /// x[N] = value
  template <std::size_t N, class T>
  static void fill(T value, T* x) {
    detail::deal_ranges(N, detail::sum_grain, [=](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) x[i] = value;
    });
  }

  /// out[N] = x
  template <std::size_t N, class T>
  static void copy(T const* x, T* out) {
    if (x != out) detail::copy(N, x, out);
  }

  /// x = value where the element is real; padding stays.
  template <class T>
  static void fill_real(T value, T* x, index_map const& map) {
    for_each_run(map, [=](std::size_t begin, std::size_t count, std::uint64_t) {
      for (std::size_t i = 0; i < count; ++i) x[begin + i] = value;
    });
  }

  /// x[n] = 0
  template <class T>
  static void clear(T* x, std::size_t n) {
    detail::deal_ranges(n, 4 * detail::sum_grain, [=](std::size_t begin, std::size_t end) {
      std::memset(static_cast<void*>(x + begin), 0, (end - begin) * sizeof(T));
    });
  }

  /// y[Rows,Width] = bias[Width] in each row, plus each of in[Rows,Width]…
  template <std::size_t Rows, std::size_t Width, class T, class... In>
  static void biased_sum(T const* bias, T* y, In const*... in) {
    detail::biased_sum(Rows, Width, bias, y, in...);
  }

  /// db[Width] += Σ over the rows of dy[Rows,Width], in the order of the rows. (The last argument is a device's.)
  template <std::size_t Rows, std::size_t Width, class T>
  static void bias_gradient(T const* dy, T* db, accumulation_t<T>* = nullptr) {
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
