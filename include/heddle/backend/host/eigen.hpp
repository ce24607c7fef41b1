// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one place that includes Eigen. Under nvcc Eigen would drop all host SIMD (18 times slower products) unless it is
// told, before its first header, that it is not wanted on the device.
#if defined(__CUDACC__) && !defined(EIGEN_NO_CUDA)
#ifdef EIGEN_WORLD_VERSION
#error \
    "heddle's host backend: Eigen was included before without EIGEN_NO_CUDA, and under nvcc then has no host SIMD; define EIGEN_NO_CUDA in this file's flags, or include heddle first"
#endif
#define EIGEN_NO_CUDA
#endif

#if !__has_include(<Eigen/Core>)
#error "heddle's host backend: Eigen must be in the include path; install libeigen3-dev, and add pkg-config's eigen3"
#endif
// g++ 12 takes the undefined operand of AVX-512 intrinsics for a mistake of whoever calls them (gcc bug 105593).
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <Eigen/Core>
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#pragma GCC diagnostic pop
#endif

#if !EIGEN_VERSION_AT_LEAST(3, 4, 0)
#error "heddle's host backend: Eigen must be 3.4.0 or newer; install it, or put a newer one first in the include path"
#endif
