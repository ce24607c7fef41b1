// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace heddle {

/// What one AdamW step of one parameter needs besides its arrays. `gradient_scale` multiplies the gradient first (the
/// clipping factor and the divisor of the loss, joined); the bias corrections are 1 - beta^t at step t = 1, 2, …
struct adamw_coefficients {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double bias_correction1 = 1;
  double bias_correction2 = 1;
  double gradient_scale = 1;
};

}  // namespace heddle
