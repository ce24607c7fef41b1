// SPDX-License-Identifier: Apache-2.0
#pragma once
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

}  // namespace heddle::kernels
