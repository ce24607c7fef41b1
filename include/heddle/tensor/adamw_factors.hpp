// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/detail/host_device.hpp>
#include <heddle/tensor/adamw_coefficients.hpp>

#include <cmath>

namespace heddle {

/// `adamw_coefficients` as an update of elements of type A uses them: computed in double and rounded once, by host and
/// device alike.
template <class A>
struct adamw_factors {
  A gradient_scale, beta1, beta2, rest1, rest2;
  A keep;  ///< 1 - learning rate · weight decay
  A step;  ///< learning rate / bias correction of m
  A root;  ///< 1 / √(bias correction of v)
  A epsilon;

  HEDDLE_HOST_DEVICE static adamw_factors of(adamw_coefficients const& c) {
    return {static_cast<A>(c.gradient_scale), static_cast<A>(c.beta1), static_cast<A>(c.beta2),
            static_cast<A>(1 - c.beta1), static_cast<A>(1 - c.beta2),
            // Rounded once: whether a product and a sum are fused is not left to the compiler.
            static_cast<A>(std::fma(-c.learning_rate, c.weight_decay, 1.0)),
            static_cast<A>(c.learning_rate / c.bias_correction1), static_cast<A>(1 / std::sqrt(c.bias_correction2)),
            static_cast<A>(c.epsilon)};
  }
};

}  // namespace heddle
