// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/tensor/activation_kind.hpp>
#include <support/math.cuh>

namespace heddle::kernels {

/// act(x) and act'(x); what is not used is removed by the compiler.
template <class A>
struct activated {
  A value, slope;
};

namespace detail {
/// 1/(1 + e^−x): 0 and 1 at the ends, as e^−x becomes infinite or 0.
template <class A>
__device__ A sigmoid(A x) {
  return A(1) / (A(1) + math::exp(-x));
}
}  // namespace detail

/// ½x(1 + tanh u) = x·sigmoid(2u), u = √(2/π)·(x + 0.044715x³), which needs one exponential and does not cancel for
/// negative x. Hendrycks and Gimpel, arXiv 1606.08415 §2.
struct gelu_tanh {
  template <class A>
  __device__ static activated<A> at(A x) {
    constexpr A two_root = A(1.59576912160573071176);  // 2·√(2/π)
    constexpr A cubic = A(0.044715);
    A const square = x * x;
    A const s = detail::sigmoid(two_root * x * (A(1) + cubic * square));
    A const y = x * s;
    // y·(1 − s) is 0 long before this bound, which keeps an infinite square from making that a NaN. NaN stays.
    A const bounded = square > A(1e6) ? A(1e6) : square;
    return {y, s + y * (A(1) - s) * (two_root * (A(1) + A(3) * cubic * bounded))};
  }
};

/// x·Φ(x); Φ by erfc, which keeps its relative accuracy in the lower tail.
struct gelu_erf {
  template <class A>
  __device__ static activated<A> at(A x) {
    A const distribution = A(0.5) * math::erfc(x * A(-0.70710678118654752440));
    A const density = math::exp(A(-0.5) * x * x) * A(0.39894228040143267794);
    return {x * distribution, distribution + x * density};
  }
};

/// x·sigmoid(x), which gates SwiGLU.
struct silu {
  template <class A>
  __device__ static activated<A> at(A x) {
    A const s = detail::sigmoid(x), y = x * s;
    return {y, s + y * (A(1) - s)};
  }
};

/// max(x, 0); the slope at 0 is 0, and NaN stays NaN.
struct relu {
  template <class A>
  __device__ static activated<A> at(A x) {
    return {x < A(0) ? A(0) : x, x > A(0) ? A(1) : A(0)};
  }
};

namespace detail {
template <activation_kind Kind>
struct function_of;
template <>
struct function_of<activation_kind::gelu_tanh> {
  using type = gelu_tanh;
};
template <>
struct function_of<activation_kind::gelu_erf> {
  using type = gelu_erf;
};
template <>
struct function_of<activation_kind::silu> {
  using type = silu;
};
template <>
struct function_of<activation_kind::relu> {
  using type = relu;
};
}  // namespace detail

/// What the kernels take for a kind that a module is declared with.
template <activation_kind Kind>
using function_of = typename detail::function_of<Kind>::type;

}  // namespace heddle::kernels
