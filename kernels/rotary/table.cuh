// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <support/math.cuh>
#include <support/vector.cuh>

namespace heddle::kernels {

/// positions[n] = first, first + 1, … Grid: `thread_grid`.
template <int Threads>
__global__ void __launch_bounds__(Threads) count_up(long long first, std::int64_t* positions, long long n) {
  long long const i = static_cast<long long>(blockIdx.x) * Threads + threadIdx.x;
  if (i < n) positions[i] = first + i;
}

/// cosine and sine [sequence, HeadDim/2] of the angles positions[s]·theta^(-2i/HeadDim), angles in double:
/// `host::rotary_positions::rotary_table`, but for what the device's functions round otherwise. Grid: `thread_grid` of
/// the sequence·HeadDim/2 angles.
template <class A, int HeadDim, int Threads>
__global__ void __launch_bounds__(Threads)
    rotary_table(std::int64_t const* positions, double theta, long long sequence, A* cosine, A* sine) {
  constexpr int half = HeadDim / 2;
  long long const at = static_cast<long long>(blockIdx.x) * Threads + threadIdx.x;
  if (at >= sequence * half) return;
  long long const row = at / half, i = at - row * half;
  double const frequency = math::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(HeadDim));
  double const angle = static_cast<double>(positions[row]) * frequency;
  cosine[at] = A(math::cos(angle));
  sine[at] = A(math::sin(angle));
}

}  // namespace heddle::kernels
