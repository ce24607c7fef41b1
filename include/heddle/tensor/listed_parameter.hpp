// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>

namespace heddle {

/// A parameter, or this rank's part of one, in a list that an optimizer updates together: `size` weights w, their
/// gradient, and the arrays of the optimizer's state, in one layout. `rounded`, unless it is null, is given the new
/// weights in its type.
template <class Value, class Master, class Gradient, std::size_t Slots>
struct listed_parameter {
  Master* w = nullptr;
  Gradient const* g = nullptr;
  std::array<Master*, Slots> state{};
  Value* rounded = nullptr;
  std::size_t size = 0;
  bool decays = false;  ///< whether weight decay applies
};

}  // namespace heddle
