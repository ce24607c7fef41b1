// SPDX-License-Identifier: Apache-2.0
// The host backend in a file that nvcc compiles has Eigen's vectors. A green compilation is the pass.
#if defined(REJECT_EIGEN_BEFORE)  // expect: Eigen was included before without EIGEN_NO_CUDA
// shows: define EIGEN_NO_CUDA
#include <Eigen/Core>
#endif

#include <heddle/backend/host/eigen.hpp>

#ifndef EIGEN_VECTORIZE
#error "under nvcc Eigen computes without the host's vectors"
#endif
static_assert(Eigen::internal::packet_traits<float>::Vectorizable && Eigen::internal::packet_traits<float>::size >= 4);
