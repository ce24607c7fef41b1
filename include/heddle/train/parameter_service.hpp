// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle {

/// Brings parameters to where modules read them, and takes gradients from where modules leave them, unit by unit
/// (nn/parameter_unit.hpp). `use` is the number of the unit's first parameter use in the stage, for the slots of any of
/// its uses; `copy` that of a repeated block's copy. A virtual interface, so that modules do not know the optimizer.
class parameter_service {
 public:
  virtual void before_forward(std::size_t use, std::size_t copy) = 0;
  virtual void before_backward(std::size_t use, std::size_t copy) = 0;
  virtual void after_backward(std::size_t use, std::size_t copy) = 0;
  [[nodiscard]] virtual std::size_t parameter_slot(std::size_t use, std::size_t copy) const = 0;
  [[nodiscard]] virtual std::size_t gradient_slot(std::size_t use, std::size_t copy) const = 0;

 protected:
  ~parameter_service() = default;
};

}  // namespace heddle
