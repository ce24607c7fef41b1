// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/backend/cuda/pointwise.hpp>
#include <norm/norm.cuh>
#include <type_traits>

namespace heddle::cuda {

/// `host::norms` on a device. Statistics are in the type that is computed with. Backward needs `scratch`, of
/// `layer_norm_backward_scratch` (`rms_norm_backward_scratch`) elements, where there are gradients of parameters; these
/// are summed in parts of the rows that depend on Rows alone.
struct norms {
  template <class T>
  using statistic = kernels::accumulator_t<T>;

  /// y[Rows,Width] = (x - mean)·rstd·gamma + beta; mean[Rows] and rstd[Rows]. `beta` may be null.
  template <std::size_t Rows, std::size_t Width, class T>
  static void layer_norm(T const* x, T const* gamma, T const* beta, statistic<T> epsilon, T* y, statistic<T>* mean,
                         statistic<T>* rstd) {
    forward<true, Rows, Width>(x, gamma, beta, epsilon, y, mean, rstd);
  }
  template <std::size_t Rows, std::size_t Width>
  static constexpr std::size_t layer_norm_backward_scratch() {
    return 2 * kernels::parts_size(detail::row_parts(Rows), Width);
  }
  /// dx[Rows,Width], plus base[Rows,Width] unless that is null; dgamma[Width] += and dbeta[Width] +=, each unless it is
  /// null; without dgamma there is no dbeta
  template <std::size_t Rows, std::size_t Width, class T>
  static void layer_norm_backward(T const* x, T const* gamma, statistic<T> const* mean, statistic<T> const* rstd,
                                  T const* dy, std::type_identity_t<T> const* base, T* dx, T* dgamma, T* dbeta,
                                  statistic<T>* scratch) {
    backward<true, Rows, Width>(x, gamma, mean, rstd, dy, base, dx, dgamma, dbeta, scratch);
  }

  /// y[Rows,Width] = x·rstd·gamma; rstd[Rows]
  template <std::size_t Rows, std::size_t Width, class T>
  static void rms_norm(T const* x, T const* gamma, statistic<T> epsilon, T* y, statistic<T>* rstd) {
    T const* const no_beta = nullptr;
    statistic<T>* const no_mean = nullptr;
    forward<false, Rows, Width>(x, gamma, no_beta, epsilon, y, no_mean, rstd);
  }
  template <std::size_t Rows, std::size_t Width>
  static constexpr std::size_t rms_norm_backward_scratch() {
    return kernels::parts_size(detail::row_parts(Rows), Width);
  }
  /// dx[Rows,Width], plus base[Rows,Width] unless that is null; dgamma[Width] += unless that is null
  template <std::size_t Rows, std::size_t Width, class T>
  static void rms_norm_backward(T const* x, T const* gamma, statistic<T> const* rstd, T const* dy,
                                std::type_identity_t<T> const* base, T* dx, T* dgamma, statistic<T>* scratch) {
    statistic<T> const* const no_mean = nullptr;
    T* const no_beta = nullptr;
    backward<false, Rows, Width>(x, gamma, no_mean, rstd, dy, base, dx, dgamma, no_beta, scratch);
  }

 private:
  template <bool Centred, std::size_t Rows, std::size_t Width, class T>
  static void forward(T const* x, T const* gamma, T const* beta, statistic<T> epsilon, T* y, statistic<T>* mean,
                      statistic<T>* rstd) {
    constexpr std::size_t all = Rows * Width;
    constexpr int threads = detail::row_threads<T>(Width);
    T const* const no_base = nullptr;
    T* const no_sum = nullptr;
    if constexpr (all != 0)
      detail::run<kernels::norm_forward<detail::plain_t<T>, Centred, threads>, threads>(
          kernels::row_grid(Rows), no_base, reads(x, all), reads(gamma, Width), reads(beta, Width), epsilon, Width,
          no_sum, writes(y, all), writes(mean, Rows), writes(rstd, Rows));
  }
  template <bool Centred, std::size_t Rows, std::size_t Width, class T>
  static void backward(T const* x, T const* gamma, statistic<T> const* mean, statistic<T> const* rstd, T const* dy,
                       T const* base, T* dx, T* dgamma, T* dbeta, statistic<T>* scratch) {
    constexpr std::size_t all = Rows * Width;
    constexpr int threads = detail::row_threads<T>(Width), parts = detail::row_parts(Rows);
    constexpr std::size_t size = kernels::parts_size(parts, Width);
    statistic<T>*const gamma_part = dgamma != nullptr ? scratch : nullptr, *const beta_part =
                                                                               dgamma != nullptr && dbeta != nullptr
                                                                                   ? scratch + size
                                                                                   : nullptr;
    if constexpr (all != 0) {
      detail::run<kernels::norm_backward<detail::plain_t<T>, Centred, threads>, threads>(
          kernels::part_grid(parts), reads(x, all), reads(gamma, Width), reads(mean, Rows), reads(rstd, Rows),
          reads(dy, all), reads(base, all), Rows, Width, writes(dx, all), writes(gamma_part, size),
          writes(beta_part, size));
      if (gamma_part != nullptr) detail::add_parts(gamma_part, parts, Width, dgamma);
      if (beta_part != nullptr) detail::add_parts(beta_part, parts, Width, dbeta);
    }
  }
};

}  // namespace heddle::cuda
