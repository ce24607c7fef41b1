// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/nn/frozen_plan.hpp>
#include <heddle/nn/op.hpp>

namespace heddle {

/// The parameters within `Module` are not trained: they start, rest, are gathered and are read as any others, and
/// nothing more. They have no gradient, no optimizer state and no share of the gradient's norm; no update and no weight
/// decay reaches them. What their gradients would cost is not computed, and what only those would read is not saved.
/// The cotangent of the module's input is: modules before it may be trained.
///
/// **Layouts.** Those of `Module`; of a parameter the rest layout alone. **Moves** what `Module` moves, less the
/// reductions of gradients and the gathers of updated parameters. **Saves** less (a product: nothing).
/// **Errors.** `Module` must have a parameter. All uses of a tied parameter are frozen, or none.
/// **Law.** The gradients of what is trained are those of the model without `frozen`. docs/howto/fine-tuning.md
template <class Module>
struct frozen {};

template <class Module, class Plan, class Input>
struct placed<frozen<Module>, Plan, Input> : placed<Module, detail::freeze_t<Plan>, Input> {
  static_assert(placed<Module, detail::freeze_t<Plan>, Input>::uses.size() != 0,
                "frozen<Module>: 'Module' must have a parameter, since freezing is for parameters; take frozen away");
};

}  // namespace heddle
