// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

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

  /// These, with the corrections of update `update`, which counts from 1.
  [[nodiscard]] constexpr adamw_coefficients at(std::uint64_t update) const {
    adamw_coefficients c = *this;
    c.bias_correction1 = 1 - power(beta1, update);
    c.bias_correction2 = 1 - power(beta2, update);
    return c;
  }

 private:
  /// By squaring: the same bits on every platform, which a library's pow need not give.
  static constexpr double power(double base, std::uint64_t exponent) {
    double result = 1;
    for (; exponent != 0; exponent >>= 1, base *= base)
      if ((exponent & 1) != 0) result *= base;
    return result;
  }
};

}  // namespace heddle
