// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/layout/layout.hpp>

namespace heddle {

/// How a parameter, its reduced gradient and its optimizer state lie between their uses: their *rest layouts*. Using a
/// parameter redistributes it to its compute layout; its gradient is reduced into its own rest layout; the update works
/// in the layout of the state, on that part of parameter and gradient, and the result returns to the parameter's.
struct rest_layouts {
  layout parameter{};
  layout gradient{};
  layout state{};
};

/// Everything rests as it is computed with: replicated over the data axes, so nothing moves but the reduction.
///
/// `zero` chooses otherwise, and a plan may by declaring `rest_policy`, a type with this function. `dims` are those of
/// the parameter (of one copy, where it belongs to a repeated block: layers rest where they compute), `compute` its
/// compute layout; the result must hold a complete value (nothing partial), and splits must divide the stored sizes or
/// be padded.
struct rest_as_computed {
  static constexpr rest_layouts of(mesh_value const&, dimension_list const&, layout const& compute) {
    return {compute, compute, compute};
  }
};

namespace detail {

/// Whether a rest policy means gradients to be held in parts only: unreduced ones not longer than needed.
template <class RestPolicy>
inline constexpr bool partitions_gradients = [] {
  if constexpr (requires { RestPolicy::partitions_gradients; })
    return RestPolicy::partitions_gradients;
  else
    return false;
}();

}  // namespace detail

}  // namespace heddle
