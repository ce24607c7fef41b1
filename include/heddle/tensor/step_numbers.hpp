// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <heddle/detail/host_device.hpp>

namespace heddle {

/// What steers a train step, in the backend's memory: what the host says when it begins, what ranks add up in it, and
/// what follows from both. Kernels read it there, so that nothing which changes from step to step is an argument of
/// theirs, and the host waits for nothing before a step's end.
struct step_numbers {
  // Added up over ranks.
  double squared_norm = 0;  ///< of the gradient of the scaled loss
  double loss = 0;          ///< summed over counted tokens
  double agreement = 0;     ///< 0 where ranks were given the same (train/agreement.hpp)
  double count = 0;         ///< of counted tokens
  // Said when the step begins.
  double loss_scale = 1;
  double clip = 0;                ///< bound of the gradient norm; 0 means none
  std::uint64_t random_step = 0;  ///< `random_key::step` of the step's masks
  // What follows.
  double seed_gradient = 0;   ///< of each token's loss
  double gradient_norm = 0;   ///< without the loss scale, before clipping
  double gradient_scale = 1;  ///< by which the optimizer multiplies gradients: clipped, without the loss scale
  long long skips = 0;        ///< not 0 where the optimizer may change nothing
  long long updates = 0;      ///< of the optimizer so far: a step that was skipped is none

  /// Once `count` is that of all ranks.
  HEDDLE_HOST_DEVICE void seed() { seed_gradient = count > 0 ? loss_scale / count : 0; }
  /// Once the other three sums are. All ranks have the same ones, so they decide alike.
  HEDDLE_HOST_DEVICE void decide() {
    gradient_norm = std::sqrt(squared_norm) / loss_scale;
    bool const finite = gradient_norm - gradient_norm == 0 && loss - loss == 0;
    skips = agreement == 0 && finite ? 0 : 1;
    bool const too_long = clip > 0 && gradient_norm > clip;
    gradient_scale = (too_long ? clip / gradient_norm : 1) / loss_scale;
  }
};

}  // namespace heddle
