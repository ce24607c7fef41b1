// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/tensor/argument_checks.hpp>
#include <heddle/tensor/index_map.hpp>
#include <heddle/tensor/random_key.hpp>
#include <random/dropout.cuh>
#include <random/fill.cuh>
#include <type_traits>

namespace heddle::cuda {

/// `host::random` on a device: the same numbers, to the bit.
struct random {
  /// x = mean + stddev · normal
  template <class T>
  static void fill_normal(T* x, index_map const& map, random_key const& key, double mean, double stddev) {
    std::size_t const n = map.size();
    detail::run_packs<kernels::fill_normal<detail::plain_t<T>, detail::threads>, T>(
        n, writes(x, n), n, kernels::index_runs::of(merged(map)), random_stream(key), mean, stddev);
  }
  /// x = low + (high - low) · uniform
  template <class T>
  static void fill_uniform(T* x, index_map const& map, random_key const& key, double low, double high) {
    std::size_t const n = map.size();
    detail::run_packs<kernels::fill_uniform<detail::plain_t<T>, detail::threads>, T>(
        n, writes(x, n), n, kernels::index_runs::of(merged(map)), random_stream(key), low, high - low);
  }
  /// y = x / (1 - p) where `uniform<double>(word) >= p`, else 0; plus `base` unless that is null. y may be x or base.
  /// Throws `heddle::error` for p outside [0, 1).
  template <class T>
  static void dropout(T const* x, std::type_identity_t<T> const* base, T* y, index_map const& map, step_key const& key,
                      double p) {
    check_dropout_probability(p);
    std::size_t const n = map.size();
    std::array const uses{use_of(reads(key.step, key.step == nullptr ? 0 : 1))};
    detail::run_packs<kernels::dropout<detail::plain_t<T>, detail::threads>, T>(
        n, reads(x, n), reads(base, n), writes(y, n), n, kernels::index_runs::of(merged(map)),
        carries(kernels::random_source(key), uses), kernels::dropout_rate<kernels::accumulator_t<T>>::of(p));
  }
  template <class T>
  static void dropout(T const* x, std::type_identity_t<T> const* base, T* y, index_map const& map,
                      random_key const& key, double p) {
    dropout(x, base, y, map, step_key(key), p);
  }
};

}  // namespace heddle::cuda
