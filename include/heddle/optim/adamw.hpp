// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/optim/optimizer_concepts.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <heddle/tensor/adamw_coefficients.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace heddle {

/// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2; Kingma and Ba, arXiv
/// 1412.6980). ε is added after the bias correction, outside the root. State: first and second moment.
struct adamw {
  static constexpr std::size_t slots = 2;
  static constexpr std::array<std::string_view, slots> slot_names = {"first moment", "second moment"};

  struct options {
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
  };

  static constexpr std::array<option_value, 4> values(options const& o) {
    return {{{"beta1", o.beta1}, {"beta2", o.beta2}, {"epsilon", o.epsilon}, {"weight_decay", o.weight_decay}}};
  }

  /// An error for values with which an update divides by zero, or grows what it should average.
  static void check(options const& o) {
    for (double const beta : {o.beta1, o.beta2})
      if (!(beta >= 0 && beta < 1))
        throw error(detail::joined_text({"adamw: 'beta1' is ", std::to_string(o.beta1), " and 'beta2' is ",
                                         std::to_string(o.beta2), "; each must be at least 0 and below 1"}));
    if (!(o.epsilon > 0 && o.epsilon < 1e300))
      throw error(detail::joined_text({"adamw: 'epsilon' is ", std::to_string(o.epsilon),
                                       "; it must be above 0, or an element without gradient is 0 / 0"}));
    if (!(o.weight_decay >= 0 && o.weight_decay < 1e300))
      throw error(detail::joined_text(
          {"adamw: 'weight_decay' is ", std::to_string(o.weight_decay), "; give a finite number that is at least 0"}));
  }

  template <class Backend, class T, class G>
  requires std::is_same_v<accumulation_t<G>, T>
  static void update(options const& o, update_facts const& facts, T* w, G const* g, std::array<T*, slots> const& state,
                     std::size_t n) {
    adamw_coefficients c = coefficients_of(o, facts.learning_rate)[facts.decays ? 1 : 0].at(facts.step);
    c.gradient_scale = facts.gradient_scale;
    Backend::adamw(w, g, state[0], state[1], n, c);
  }

  /// An update of many parameters together, whose facts lie in the backend's memory.
  using lists_of = adamw;
  template <class Backend, class Value, class Master, class Gradient>
  using list = typename Backend::template adamw_list<Backend, Value, Master, Gradient>;
  /// What the list is told of a step: without weight decay, and with it.
  static constexpr std::array<adamw_coefficients, 2> coefficients_of(options const& o, double learning_rate) {
    adamw_coefficients const plain{
        .learning_rate = learning_rate, .beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon};
    adamw_coefficients decaying = plain;
    decaying.weight_decay = o.weight_decay;
    return {plain, decaying};
  }
};

}  // namespace heddle
