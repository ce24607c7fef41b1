// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/tensor/step_numbers.hpp>
#include <support/device.cuh>

namespace heddle::kernels {

/// `step_numbers::seed`, where the step's gradients begin. One thread.
template <int Threads>
__global__ void __launch_bounds__(Threads) seed_step(step_numbers* now) {
  static_assert(Threads == 1);
  now->seed();
}
/// `step_numbers::decide`, before the optimizer's step. One thread.
template <int Threads>
__global__ void __launch_bounds__(Threads) decide_step(step_numbers* now) {
  static_assert(Threads == 1);
  now->decide();
}

}  // namespace heddle::kernels
