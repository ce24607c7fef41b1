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
  // Without whole turns, whose length is given in two parts: so as exact for a late position as for an early one.
  constexpr double turn = 6.28318530717958647693, rest = 2.44929359829470635446e-16;
  double const turns = math::rint(angle * 0.15915494309189533577);
  double const half_turns = math::fma(-turns, rest, math::fma(-turns, turn, angle)) * 0.31830988618379067154;
  cosine[at] = A(math::cospi(half_turns));
  sine[at] = A(math::sinpi(half_turns));
}

}  // namespace heddle::kernels
