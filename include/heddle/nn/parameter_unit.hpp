// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle {

/// Parameters that are asked for together: those of a primitive module (of two, where they fuse), or of one copy of a
/// repeated block. Before a unit computes, its module calls `before_forward(use, copy)` or `before_backward(use, copy)`
/// of the context, and `after_backward(use, copy)` when its gradients are complete; what rests in another layout is
/// brought, and reduced, in these calls. Units are numbered in the order of forward; backward visits them in the
/// opposite order.
struct parameter_unit {
  std::size_t first_use = 0;
  std::size_t uses = 0;
  std::size_t copies = 1;  ///< of a repeated block; each is asked for on its own
  bool backward = true;    ///< backward asks for it, too
};

}  // namespace heddle
