// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/pointwise.hpp>

#include <cmath>
#include <cstddef>
#include <type_traits>

namespace heddle::host {

namespace detail {

/// body(first row, last row, sums, more sums) for blocks of rows whose number depends on `rows` alone, dealt to the
/// threads of the rank. A block adds to sums[width] of its own, zero before, which are then added to `total` (and
/// `more`, unless it is null) block by block. A single block adds to the totals themselves. Without a `total` nothing
/// is summed.
template <class T, class Body>
inline void sum_over_row_blocks(std::size_t rows, std::size_t width, T* total, T* more, Body const& body) {
  using A = accumulation_t<T>;
  constexpr std::size_t least = 32, most = 32;
  std::size_t const length = rows <= least * most ? least : (rows + most - 1) / most;
  if constexpr (!is_narrow<T>)
    if (rows <= length) {
      body(std::size_t{0}, rows, total, more);
      return;
    }
  std::size_t const blocks = (rows + length - 1) / length;
  if (total == nullptr) {
    A* const no_sums = nullptr;
    deal(blocks, [&](std::size_t block) {
      body(block * length, block + 1 < blocks ? (block + 1) * length : rows, no_sums, no_sums);
    });
    return;
  }
  std::size_t const share = (more == nullptr ? 1 : 2) * width;
  A* const sums = reinterpret_cast<A*>(workspace::of_this_thread().get(blocks * share * sizeof(A)));
  deal(blocks, [&](std::size_t block) {
    A* const own = sums + block * share;
    std::memset(static_cast<void*>(own), 0, share * sizeof(A));
    body(block * length, block + 1 < blocks ? (block + 1) * length : rows, own,
         more == nullptr ? nullptr : own + width);
  });
  std::size_t done = 0;
  if constexpr (is_narrow<T>)  // rounded once
    for (; done + 1 < blocks; ++done) add_to(share, sums + done * share, sums + (done + 1) * share);
  for (; done < blocks; ++done) {
    add_to(width, sums + done * share, total);
    if (more != nullptr) add_to(width, sums + done * share + width, more);
  }
}

template <class T>
inline void layer_norm_rows(std::size_t first, std::size_t last, std::size_t width, T const* x, T const* gamma,
                            T const* beta, accumulation_t<T> epsilon, T* y, accumulation_t<T>* mean,
                            accumulation_t<T>* rstd) {
  using A = accumulation_t<T>;
  x += first * width;
  y += first * width;
  for (std::size_t row = first; row < last; ++row, x += width, y += width) {
    A const average =
        sum_over<A>(width, [x](std::size_t i, auto count) { return load(x + i, count); }) / static_cast<A>(width);
    // The second pass over a row that is in the first-level cache by now; E[x²] - E[x]² would cancel.
    A const squares = sum_over<A>(width, [x, average](std::size_t i, auto count) -> lanes<T> {
      lanes<T> const centred = load(x + i, count, average) - average;
      return centred * centred;
    });
    A const inverse = A(1) / std::sqrt(squares / static_cast<A>(width) + epsilon);
    mean[row] = average;
    rstd[row] = inverse;
    for_each_group<T>(width, [=](std::size_t i, auto count) {
      lanes<T> value = (load(x + i, count) - average) * inverse * load(gamma + i, count);
      if (beta != nullptr) value += load(beta + i, count);
      store<T>(y + i, value, count);
    });
  }
}

// Not inlined, what follows of backward: in each of several copies the compiler would choose anew which products to
// fuse with a sum, and the bits would depend on who calls.

/// out[i] = value(i), plus base[i] unless `base` is null.
template <class T, class F>
inline void store_onto(std::size_t n, T const* base, T* out, F value) {
  for_each_group<T>(n, [=](std::size_t i, auto count) {
    lanes<T> sum = value(i, count);
    if (base != nullptr) sum += load(base + i, count);
    store<T>(out + i, sum, count);
  });
}

template <class T>
[[gnu::noinline]] inline void layer_norm_backward_rows(std::size_t first, std::size_t last, std::size_t width,
                                                       T const* x, T const* gamma, accumulation_t<T> const* mean,
                                                       accumulation_t<T> const* rstd, T const* dy, T const* base, T* dx,
                                                       accumulation_t<T>* dgamma, accumulation_t<T>* dbeta) {
  using A = accumulation_t<T>;
  x += first * width;
  dy += first * width;
  dx += first * width;
  if (base != nullptr) base += first * width;
  for (std::size_t row = first; row < last; ++row, x += width, dy += width, dx += width) {
    A const average = mean[row];
    A const inverse = rstd[row];
    lanes<T> sum{}, projection{};
    for_each_group<T>(width, [&](std::size_t i, auto count) {
      lanes<T> const d = load(dy + i, count);
      lanes<T> const normal = (load(x + i, count) - average) * inverse;
      lanes<T> const scaled = d * load(gamma + i, count);
      sum += scaled;
      projection += scaled * normal;
      if (dgamma != nullptr) store<A>(dgamma + i, load(dgamma + i, count) + d * normal, count);
      if (dbeta != nullptr) store<A>(dbeta + i, load(dbeta + i, count) + d, count);
    });
    A const shift = sum_of_lanes<A>(sum) / static_cast<A>(width);
    A const slope = sum_of_lanes<A>(projection) / static_cast<A>(width);
    store_onto(width, base, dx, [=](std::size_t i, auto count) -> lanes<T> {
      lanes<T> const normal = (load(x + i, count) - average) * inverse;
      lanes<T> const scaled = load(dy + i, count) * load(gamma + i, count);
      return (scaled - shift - normal * slope) * inverse;
    });
    if (base != nullptr) base += width;
  }
}

template <class T>
inline void rms_norm_rows(std::size_t first, std::size_t last, std::size_t width, T const* x, T const* gamma,
                          accumulation_t<T> epsilon, T* y, accumulation_t<T>* rstd) {
  using A = accumulation_t<T>;
  x += first * width;
  y += first * width;
  for (std::size_t row = first; row < last; ++row, x += width, y += width) {
    A const squares = sum_over<A>(width, [x](std::size_t i, auto count) -> lanes<T> {
      lanes<T> const value = load(x + i, count);
      return value * value;
    });
    A const inverse = A(1) / std::sqrt(squares / static_cast<A>(width) + epsilon);
    rstd[row] = inverse;
    for_each_group<T>(width, [=](std::size_t i, auto count) {
      store<T>(y + i, load(x + i, count) * inverse * load(gamma + i, count), count);
    });
  }
}

template <class T>
[[gnu::noinline]] inline void rms_norm_backward_rows(std::size_t first, std::size_t last, std::size_t width, T const* x,
                                                     T const* gamma, accumulation_t<T> const* rstd, T const* dy,
                                                     T const* base, T* dx, accumulation_t<T>* dgamma) {
  using A = accumulation_t<T>;
  x += first * width;
  dy += first * width;
  dx += first * width;
  if (base != nullptr) base += first * width;
  for (std::size_t row = first; row < last; ++row, x += width, dy += width, dx += width) {
    A const inverse = rstd[row];
    lanes<T> projection{};
    for_each_group<T>(width, [&](std::size_t i, auto count) {
      lanes<T> const d = load(dy + i, count);
      lanes<T> const normal = load(x + i, count) * inverse;
      projection += d * load(gamma + i, count) * normal;
      if (dgamma != nullptr) store<A>(dgamma + i, load(dgamma + i, count) + d * normal, count);
    });
    A const slope = sum_of_lanes<A>(projection) / static_cast<A>(width);
    store_onto(width, base, dx, [=](std::size_t i, auto count) -> lanes<T> {
      lanes<T> const normal = load(x + i, count) * inverse;
      lanes<T> const scaled = load(dy + i, count) * load(gamma + i, count);
      return (scaled - normal * slope) * inverse;
    });
    if (base != nullptr) base += width;
  }
}

/// Of all rows, dealt to the threads of the rank; of `norms`, whose sizes are constants, nothing but the call is
/// compiled for each shape.
template <class T>
inline void layer_norm(std::size_t rows, std::size_t width, T const* x, T const* gamma, T const* beta,
                       accumulation_t<T> epsilon, T* y, accumulation_t<T>* mean, accumulation_t<T>* rstd) {
  deal_rows(rows, width, function_grain, [=](std::size_t first, std::size_t last) {
    layer_norm_rows(first, last, width, x, gamma, beta, epsilon, y, mean, rstd);
  });
}

template <class T>
inline void layer_norm_backward(std::size_t rows, std::size_t width, T const* x, T const* gamma,
                                accumulation_t<T> const* mean, accumulation_t<T> const* rstd, T const* dy,
                                T const* base, T* dx, T* dgamma, T* dbeta) {
  sum_over_row_blocks(
      rows, width, dgamma, dbeta, [=](std::size_t first, std::size_t last, auto* gamma_sums, auto* beta_sums) {
        layer_norm_backward_rows(first, last, width, x, gamma, mean, rstd, dy, base, dx, gamma_sums, beta_sums);
      });
}

template <class T>
inline void rms_norm(std::size_t rows, std::size_t width, T const* x, T const* gamma, accumulation_t<T> epsilon, T* y,
                     accumulation_t<T>* rstd) {
  deal_rows(rows, width, function_grain, [=](std::size_t first, std::size_t last) {
    rms_norm_rows(first, last, width, x, gamma, epsilon, y, rstd);
  });
}

template <class T>
inline void rms_norm_backward(std::size_t rows, std::size_t width, T const* x, T const* gamma,
                              accumulation_t<T> const* rstd, T const* dy, T const* base, T* dx, T* dgamma) {
  sum_over_row_blocks(rows, width, dgamma, static_cast<T*>(nullptr),
                      [=](std::size_t first, std::size_t last, auto* sums, auto*) {
                        rms_norm_backward_rows(first, last, width, x, gamma, rstd, dy, base, dx, sums);
                      });
}

}  // namespace detail

/// Normalisation of each row; what is kept of a row, and the sums of gradients, are in `accumulation_t<T>`. Row sums
/// have one order; gradients of the parameters are summed in blocks of rows, and over the blocks in order. Blocks are
/// dealt to the threads of the rank. `y` may be `x`, and `dx` may be `dy`, `x` or `base`. The last
/// argument of backward, a device's, is not used.
struct norms {
  /// y[Rows,Width] = (x - mean)·rstd·gamma + beta, rstd = 1/√(variance + epsilon) with the biased variance; also
  /// mean[Rows] and rstd[Rows] for the backward pass. `beta` may be null. Ba et al., arXiv 1607.06450 §3.
  template <std::size_t Rows, std::size_t Width, class T>
  static void layer_norm(T const* x, T const* gamma, T const* beta, accumulation_t<T> epsilon, T* y,
                         accumulation_t<T>* mean, accumulation_t<T>* rstd) {
    detail::layer_norm(Rows, Width, x, gamma, beta, epsilon, y, mean, rstd);
  }

  /// dx[Rows,Width], plus base[Rows,Width] unless that is null; dgamma[Width] += and dbeta[Width] +=, each
  /// unless it is null; without dgamma there is no dbeta
  template <std::size_t Rows, std::size_t Width, class T>
  static void layer_norm_backward(T const* x, T const* gamma, accumulation_t<T> const* mean,
                                  accumulation_t<T> const* rstd, T const* dy, std::type_identity_t<T> const* base,
                                  T* dx, T* dgamma, T* dbeta, accumulation_t<T>* = nullptr) {
    detail::layer_norm_backward(Rows, Width, x, gamma, mean, rstd, dy, base, dx, dgamma, dbeta);
  }

  /// y[Rows,Width] = x·rstd·gamma, rstd = 1/√(mean(x²) + epsilon). Zhang and Sennrich, arXiv 1910.07467 §4.
  template <std::size_t Rows, std::size_t Width, class T>
  static void rms_norm(T const* x, T const* gamma, accumulation_t<T> epsilon, T* y, accumulation_t<T>* rstd) {
    detail::rms_norm(Rows, Width, x, gamma, epsilon, y, rstd);
  }

  /// dx[Rows,Width], plus base[Rows,Width] unless that is null; dgamma[Width] += unless that is
  /// null
  template <std::size_t Rows, std::size_t Width, class T>
  static void rms_norm_backward(T const* x, T const* gamma, accumulation_t<T> const* rstd, T const* dy,
                                std::type_identity_t<T> const* base, T* dx, T* dgamma, accumulation_t<T>* = nullptr) {
    detail::rms_norm_backward(Rows, Width, x, gamma, rstd, dy, base, dx, dgamma);
  }
};

}  // namespace heddle::host
