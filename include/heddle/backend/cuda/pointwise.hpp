// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <activation/activation.cuh>
#include <cstddef>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/tensor/activation_kind.hpp>
#include <heddle/tensor/index_map.hpp>
#include <pointwise/pointwise.cuh>
#include <support/column_sums.cuh>
#include <type_traits>

namespace heddle::cuda {

namespace detail {

/// gradient[width] += Σ over part[parts, width], in order.
template <class Gradient, class A>
void add_parts(A const* part, int parts, std::size_t width, Gradient* gradient) {
  run<kernels::add_parts<detail::plain_t<Gradient>, threads>>(kernels::add_parts_grid<threads>(int_of(width)),
                                                              reads(part, static_cast<std::size_t>(parts) * width),
                                                              parts, width, writes(gradient, width));
}

}  // namespace detail

/// `host::pointwise` on a device: one pass each. An output may be the same array as an input of the same shape.
/// `bias_gradient` alone needs `scratch`, of `bias_gradient_scratch` elements.
struct pointwise {
  /// out[N] = x + y
  template <std::size_t N, class T>
  static void add(T const* x, T const* y, T* out) {
    detail::run_packs<kernels::add<detail::plain_t<T>, detail::threads>, T>(N, reads(x, N), reads(y, N), N,
                                                                            writes(out, N));
  }
  /// out[N] += x
  template <std::size_t N, class T>
  static void add_to(T const* x, T* out) {
    add<N>(static_cast<T const*>(out), x, out);
  }
  /// x[N] *= factor
  template <std::size_t N, class T>
  static void scale(kernels::accumulator_t<T> factor, T* x) {
    detail::run_packs<kernels::scale<detail::plain_t<T>, detail::threads>, T>(N, factor, writes(x, N), N);
  }
  /// x[N] = value
  template <std::size_t N, class T>
  static void fill(std::type_identity_t<T> value, T* x) {
    detail::run_packs<kernels::fill<detail::plain_t<T>, detail::threads>, T>(N, kernels::accumulator_t<T>(value),
                                                                             writes(x, N), N);
  }
  /// out[N] = x
  template <std::size_t N, class T>
  static void copy(T const* x, T* out) {
    if (x != out) copy_on_device<T>(execution::current().compute(), {out, N}, {x, N});
  }
  /// x = value where the element is real; padding stays.
  template <class T>
  static void fill_real(std::type_identity_t<T> value, T* x, index_map const& map) {
    std::size_t const n = map.size();
    detail::run_packs<kernels::fill_real<detail::plain_t<T>, detail::threads>, T>(
        n, kernels::accumulator_t<T>(value), writes(x, n), n, kernels::index_runs::of(merged(map)));
  }
  /// x[n] = 0
  template <class T>
  static void clear(T* x, std::size_t n) {
    fill_zero<T>(execution::current().compute(), {x, n});
  }

  /// y[Rows,Width] = bias[Width] in each row, plus each of in[Rows,Width]…, two at most
  template <std::size_t Rows, std::size_t Width, class T, class... In>
  static void biased_sum(T const* bias, T* y, In const*... in) {
    static_assert(sizeof...(In) <= 2, "biased_sum(bias, y, in…): there must be at most two arrays 'in'");
    if constexpr (Rows * Width != 0) {
      T const* const terms[4] = {in..., nullptr, nullptr};  // null adds nothing
      detail::run<kernels::biased_sum<detail::plain_t<T>, detail::threads>>(
          kernels::column_grid<T, detail::threads>(Width, detail::row_shares(Rows)), reads(bias, Width),
          reads(terms[0], Rows * Width), reads(terms[1], Rows * Width), Rows, Width, writes(y, Rows * Width));
    }
  }

  template <std::size_t Rows, std::size_t Width>
  static constexpr std::size_t bias_gradient_scratch() {
    return kernels::parts_size(detail::row_parts(Rows), Width);
  }
  /// db[Width] += Σ over the rows of dy[Rows,Width], in parts that depend on Rows alone
  template <std::size_t Rows, std::size_t Width, class T, class Gradient>
  static void bias_gradient(T const* dy, Gradient* db, kernels::accumulator_t<T>* scratch) {
    if constexpr (Rows * Width != 0) {
      constexpr int parts = detail::row_parts(Rows);
      detail::run<kernels::column_sums<detail::plain_t<T>, detail::threads>>(
          kernels::column_grid<T, detail::threads>(Width, parts), reads(dy, Rows * Width), Rows, Width,
          writes(scratch, kernels::parts_size(parts, Width)));
      detail::add_parts(scratch, parts, Width, db);
    }
  }

  /// y[N] = act(x)
  template <activation_kind Kind, std::size_t N, class T>
  static void activation(T const* x, T* y) {
    detail::run_packs<kernels::activation_forward<detail::plain_t<T>, kernels::function_of<Kind>, detail::threads>, T>(
        N, reads(x, N), N, writes(y, N));
  }
  /// dx[N] = dy·act'(x)
  template <activation_kind Kind, std::size_t N, class T>
  static void activation_backward(T const* x, T const* dy, T* dx) {
    detail::run_packs<kernels::activation_backward<detail::plain_t<T>, kernels::function_of<Kind>, detail::threads>, T>(
        N, reads(x, N), reads(dy, N), N, writes(dx, N));
  }
  /// y[Rows,Width] = act(gate)·up, with x[Rows,2,Width] = (gate, up)
  template <activation_kind Kind, std::size_t Rows, std::size_t Width, class T>
  static void gated(T const* x, T* y) {
    if constexpr (Rows * Width != 0)
      detail::run<kernels::gated_forward<detail::plain_t<T>, kernels::function_of<Kind>, detail::threads>>(
          kernels::column_grid<T, detail::threads>(Width, detail::row_shares(Rows)), reads(x, 2 * Rows * Width), Rows,
          Width, writes(y, Rows * Width));
  }
  /// dx[Rows,2,Width] of `gated`, from dy[Rows,Width]; dx may be x.
  template <activation_kind Kind, std::size_t Rows, std::size_t Width, class T>
  static void gated_backward(T const* x, T const* dy, T* dx) {
    if constexpr (Rows * Width != 0)
      detail::run<kernels::gated_backward<detail::plain_t<T>, kernels::function_of<Kind>, detail::threads>>(
          kernels::column_grid<T, detail::threads>(Width, detail::row_shares(Rows)), reads(x, 2 * Rows * Width),
          reads(dy, Rows * Width), Rows, Width, writes(dx, 2 * Rows * Width));
  }
};

}  // namespace heddle::cuda
