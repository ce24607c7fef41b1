// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/adamw_list.hpp>
#include <heddle/backend/host/deal.hpp>
#include <heddle/backend/host/elementary.hpp>
#include <heddle/tensor/adamw_factors.hpp>
#include <heddle/tensor/step_numbers.hpp>

#include <cstddef>

namespace heddle::host {

namespace detail {

/// As many elements of T as there are lanes of double.
template <class T>
struct narrow_lanes {
  typedef T vector __attribute__((vector_size(lane_count_v<double> * sizeof(T))));
};

template <class T>
inline lanes<double> load_widened(T const* from, std::size_t count) {
  if constexpr (is_narrow<T>) {
    float wide[lane_count_v<double>] = {};
    for (std::size_t i = 0; i < count; ++i) wide[i] = static_cast<float>(from[i]);
    return load_widened(wide, count);
  } else {
    typename narrow_lanes<T>::vector some{};
    std::memcpy(&some, from, count * sizeof(T));
    return __builtin_convertvector(some, lanes<double>);
  }
}

}  // namespace detail

/// What an optimizer's step does to flat arrays.
struct optimizers {
  /// Σ x² of x[n] in double, in an order that depends on n alone: a rank's part of the squared gradient norm.
  template <class T>
  static double sum_of_squares(T const* x, std::size_t n) {
    // Blocks whose size depends on n alone, and their sums in order.
    constexpr std::size_t least = 32768, most = 1024;
    std::size_t const length = n <= least * most ? least : (n + most - 1) / most;
    std::size_t const blocks = (n + length - 1) / length;
    double part[most] = {};
    detail::deal(blocks, [&](std::size_t block) {
      T const* const from = x + block * length;
      part[block] =
          detail::sum_over<double>(block + 1 < blocks ? length : n - block * length, [from](std::size_t i, auto count) {
            auto const value = detail::load_widened(from + i, count);
            return detail::lanes<double>(value * value);
          });
    });
    double sum = 0;
    for (std::size_t block = 0; block < blocks; ++block) sum += part[block];
    return sum;
  }

  /// *sum += Σ x²: what `sum_of_squares` gives.
  template <class T>
  static void add_sum_of_squares(T const* x, std::size_t n, double* sum) {
    *sum += sum_of_squares(x, n);
  }

  /// *total += *x, which need not be of the total's type.
  template <class T>
  static void add_to_total(T const* x, double* total) {
    *total += static_cast<double>(*x);
  }

  /// What follows from a step's numbers: the seed of its gradients, and whether and by what the optimizer is to go.
  static void seed_step(step_numbers* now) { now->seed(); }
  static void decide_step(step_numbers* now) { now->decide(); }

  template <class Backend, class Value, class Master, class Gradient>
  using adamw_list = host::adamw_list<Backend, Value, Master, Gradient>;

  /// One AdamW step of w[n] with gradient g, first moment m, second moment v, in one pass (28 bytes a float parameter);
  /// g may be of a type that is computed with in T:
  ///   g' = gradient_scale·g;  m = β1·m + (1-β1)·g';  v = β2·v + (1-β2)·g'²
  ///   w = w - lr·weight_decay·w - lr·m̂/(√v̂ + ε),  m̂ = m/bias_correction1, v̂ = v/bias_correction2
  /// Loshchilov and Hutter, arXiv 1711.05101, algorithm 2, with the decay scaled by the learning rate as in PyTorch. ε
  /// is added after the bias correction and outside the root.
  template <class T, class G>
  static void adamw(T* w, G const* g, T* m, T* v, std::size_t n, adamw_coefficients const& coefficients) {
    using detail::lanes;
    using detail::load;
    using detail::store;
    adamw_factors<T> const f = adamw_factors<T>::of(coefficients);
    T const scale = f.gradient_scale, beta1 = f.beta1, beta2 = f.beta2, rest1 = f.rest1, rest2 = f.rest2;
    T const keep = f.keep, step = f.step, root = f.root, epsilon = f.epsilon;
    detail::deal_ranges(n, 8192, [=](std::size_t begin, std::size_t end) {
      detail::for_each_group<T>(end - begin, [=](std::size_t at, auto count) {
        std::size_t const i = begin + at;
        lanes<T> const gradient = load(g + i, count) * scale;
        lanes<T> const first = beta1 * load(m + i, count) + rest1 * gradient;
        lanes<T> const second = beta2 * load(v + i, count) + rest2 * gradient * gradient;
        lanes<T> const divisor = detail::square_root<T>(second) * root + epsilon;
        store<T>(m + i, first, count);
        store<T>(v + i, second, count);
        store<T>(w + i, keep * load(w + i, count) - step * first / divisor, count);
      });
    });
  }
};

}  // namespace heddle::host
