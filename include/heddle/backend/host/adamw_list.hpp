// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/tensor/adamw_coefficients.hpp>
#include <heddle/tensor/listed_parameter.hpp>
#include <heddle/tensor/step_numbers.hpp>
#include <span>

namespace heddle::host {

/// Parameters that AdamW updates together, listed once: `Backend::adamw` of each, in one pass over its memory, and its
/// rounded copy. What a step decides is read from its numbers; one that skips changes nothing.
template <class Backend, class Value, class Master, class Gradient>
class adamw_list {
 public:
  /// Without weight decay, and with it; but for the bias corrections and the gradient's scale.
  using coefficients = std::array<adamw_coefficients, 2>;
  using parameter = listed_parameter<Value, Master, Gradient, 2>;

  /// The list stays the caller's.
  explicit adamw_list(std::span<parameter const> all) : all_(all) {}
  /// In the memory that `Backend` computes in.
  [[nodiscard]] std::size_t bytes() const { return 0; }

  /// Those of the next step, before it begins.
  void begin_step(coefficients const& given) { given_ = given; }
  /// After `now->decide()`: counts the update, unless it is skipped.
  void prepare(step_numbers* now) {
    if (now->skips != 0) return;
    ++now->updates;
    for (std::size_t k = 0; k < given_.size(); ++k) {
      of_step_[k] = given_[k].at(static_cast<std::size_t>(now->updates));
      of_step_[k].gradient_scale *= now->gradient_scale;
    }
  }
  /// Parameters `first` to `last` - 1 of the list.
  void update(std::size_t first, std::size_t last, step_numbers const* now) const {
    if (now->skips != 0) return;
    for (std::size_t n = first; n < last; ++n) {
      parameter const& p = all_[n];
      Backend::adamw(p.w, p.g, p.state[0], p.state[1], p.size, of_step_[p.decays ? 1 : 0]);
      if (p.rounded != nullptr) Backend::memory::copy(static_cast<Master const*>(p.w), p.rounded, p.size);
    }
  }

 private:
  std::span<parameter const> all_;
  coefficients given_{}, of_step_{};
};

}  // namespace heddle::host
