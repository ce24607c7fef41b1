// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <concepts>
#include <cstddef>

namespace heddle {

/// What a step tells the optimizer about one parameter.
struct update_facts {
  std::size_t step = 1;  ///< counts from 1; one count for all parameters, whatever their gradients have been
  double learning_rate = 0;
  double gradient_scale = 1;  ///< multiplies the gradient first (the clipping factor)
  bool decays = false;        ///< whether weight decay applies to this parameter
};

/// An optimizer whose state is some arrays of the parameter's own shape.
///
/// **Minimal complete definition.** `slots`, how many state arrays; `options`, an aggregate of hyper-parameters with
/// defaults; `update<Backend>(options, facts, w, g, state, n)`, which updates `n` elements of one parameter in place.
/// State starts at zero. **Optional.** `check(options)` throws heddle::error for options that mean nothing.
/// **Laws.** Element-wise: updating two halves equals updating the whole, so any layout of parameter, gradient and
/// state that agree will do.
/// **Models.** adamw.
template <class O>
concept Optimizer = requires {
  { O::slots } -> std::convertible_to<std::size_t>;
  typename O::options;
};

}  // namespace heddle
