// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <limits>
#include <support/device.cuh>

/// The functions of <cmath> by overload, as kernels call them: never the other precision's by accident. They are as
/// accurate as CUDA's tables say unless nvcc is given -use_fast_math, which replaces those of float, and which heddle's
/// build never gives.
namespace heddle::kernels::math {

/// A variable, since device code may not call `numeric_limits<A>::infinity()`, not even for a constant.
template <class A>
inline constexpr A infinity = std::numeric_limits<A>::infinity();

__device__ inline float exp(float x) { return ::expf(x); }
__device__ inline double exp(double x) { return ::exp(x); }
__device__ inline float exp2(float x) { return ::exp2f(x); }
__device__ inline double exp2(double x) { return ::exp2(x); }
__device__ inline float log(float x) { return ::logf(x); }
__device__ inline double log(double x) { return ::log(x); }
__device__ inline float log1p(float x) { return ::log1pf(x); }
__device__ inline double log1p(double x) { return ::log1p(x); }
__device__ inline float tanh(float x) { return ::tanhf(x); }
__device__ inline double tanh(double x) { return ::tanh(x); }
__device__ inline float erf(float x) { return ::erff(x); }
__device__ inline double erf(double x) { return ::erf(x); }
__device__ inline float erfc(float x) { return ::erfcf(x); }
__device__ inline double erfc(double x) { return ::erfc(x); }
__device__ inline double pow(double x, double y) { return ::pow(x, y); }
/// Of π·x. CUDA's sine and cosine reduce large arguments in memory; these need not.
#if defined(HEDDLE_EMULATED_DEVICE)
inline double cospi(double x) { return ::cos(x * 3.14159265358979323846); }
inline double sinpi(double x) { return ::sin(x * 3.14159265358979323846); }
#else
__device__ inline double cospi(double x) { return ::cospi(x); }
__device__ inline double sinpi(double x) { return ::sinpi(x); }
#endif
__device__ inline double rint(double x) { return ::rint(x); }
__device__ inline double fma(double a, double b, double c) { return ::fma(a, b, c); }
__device__ inline float sqrt(float x) { return ::sqrtf(x); }
__device__ inline double sqrt(double x) { return ::sqrt(x); }
__device__ inline float abs(float x) { return ::fabsf(x); }
__device__ inline double abs(double x) { return ::fabs(x); }

/// a·b, rounded by itself: with a sum that follows nvcc, and g++ too, would fuse it into one rounding, here and not
/// there, and an element's bits would depend on the place it is computed at.
#if defined(HEDDLE_EMULATED_DEVICE)
[[gnu::noinline]] inline float product(float a, float b) { return a * b; }
[[gnu::noinline]] inline double product(double a, double b) { return a * b; }
#else
__device__ inline float product(float a, float b) { return ::__fmul_rn(a, b); }
__device__ inline double product(double a, double b) { return ::__dmul_rn(a, b); }
#endif

}  // namespace heddle::kernels::math
