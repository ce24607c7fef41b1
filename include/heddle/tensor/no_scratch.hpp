// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle {

/// What a backend's primitives ask for beside their operands, where they ask for nothing: elements, of the type that is
/// computed with (those of `product_scratch` of the operands'), which the caller hands them as `scratch`. Modules add
/// them to their own scratch, and so to the ledger. Each number belongs to the primitive of its name, with its sizes,
/// and does not shrink where they grow.
struct no_scratch {
  template <std::size_t...>
  static constexpr std::size_t product_scratch() {
    return 0;
  }
  template <std::size_t...>
  static constexpr std::size_t bias_gradient_scratch() {
    return 0;
  }
  template <std::size_t...>
  static constexpr std::size_t layer_norm_backward_scratch() {
    return 0;
  }
  template <std::size_t...>
  static constexpr std::size_t rms_norm_backward_scratch() {
    return 0;
  }
};

}  // namespace heddle
