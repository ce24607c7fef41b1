// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/backend/cuda/adamw_list.hpp>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/tensor/adamw_factors.hpp>
#include <heddle/tensor/step_numbers.hpp>
#include <optimizer/adamw.cuh>
#include <optimizer/norm_and_check.cuh>
#include <optimizer/step_numbers.cuh>
#include <pointwise/pointwise.cuh>

namespace heddle::cuda {

/// `host::optimizers` on a device. Nothing is waited for: sums stay in device memory.
struct optimizers {
  /// *sum += Σ x² of x[n] in double, in an order that depends on n alone
  template <class T>
  static void add_sum_of_squares(T const* x, std::size_t n, double* sum) {
    if (n == 0) return;
    // A multiple of a pack, so that parts of an aligned array are aligned.
    constexpr std::size_t least = 4096, most = execution::most_parts;
    std::size_t const length = n <= least * most ? least : (n + most * least - 1) / (most * least) * least;
    std::size_t const count = (n + length - 1) / length;
    double* const parts = execution::current().parts();
    detail::run<kernels::sum_of_squares_of_array<detail::plain_t<T>, detail::threads>>(
        dim3(static_cast<unsigned>(count)), reads(x, n), n, length, writes(parts, count));
    detail::sum_up<true>(parts, count, sum);
  }
  /// *total += *x
  template <class T>
  static void add_to_total(T const* x, double* total) {
    detail::run<kernels::add_to_total<detail::plain_t<T>, double, 1>, 1>(1, reads(x, 1), writes(total, 1));
  }
  /// What follows from a step's numbers: the seed of its gradients, and whether and by what the optimizer is to go.
  static void seed_step(step_numbers* now) { detail::run<kernels::seed_step<1>, 1>(1, writes(now, 1)); }
  static void decide_step(step_numbers* now) { detail::run<kernels::decide_step<1>, 1>(1, writes(now, 1)); }

  template <class Backend, class Value, class Master, class Gradient>
  using adamw_list = cuda::adamw_list<Backend, Value, Master, Gradient>;

  /// One AdamW step of w[n] with gradient g, first moment m, second moment v: `host::optimizers::adamw`. g may be of a
  /// type that is computed with in T.
  template <class T, class G>
  static void adamw(T* w, G const* g, T* m, T* v, std::size_t n, adamw_coefficients const& coefficients) {
    static_assert(std::is_same_v<T, kernels::accumulator_t<G>>,
                  "adamw(w, g, m, v, …): 'w' must be of the type that 'g' is computed with in; give the master "
                  "weights, and the gradient as it stands or widened to their type");
    std::array const uses{use_of(writes(w, n)), use_of(reads(g, n)), use_of(writes(m, n)), use_of(writes(v, n))};
    kernels::adamw_tensor<G, G> const all{w, g, m, v, nullptr, detail::signed_of(n), 0};
    detail::run_packs<kernels::adamw_of_tensor<detail::plain_t<G>, detail::plain_t<G>, detail::threads>, G>(
        n, carries(all, uses), adamw_factors<T>::of(coefficients));
  }
};

}  // namespace heddle::cuda
