// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <support/device.cuh>

namespace heddle::kernels {

namespace detail {
template <class T>
struct accumulator {
  using type = float;
};
template <>
struct accumulator<double> {
  using type = double;
};
}  // namespace detail

/// In what values of type T are computed with and summed: double for double, float for all others.
template <class T>
using accumulator_t = typename detail::accumulator<T>::type;

__device__ inline float inverse_root(float x) { return 1.0F / sqrtf(x); }
__device__ inline double inverse_root(double x) { return 1.0 / sqrt(x); }

}  // namespace heddle::kernels
