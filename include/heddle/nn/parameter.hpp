// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/layout/op_rules.hpp>
#include <heddle/nn/frozen_plan.hpp>
#include <string_view>

namespace heddle {

/// How a parameter starts. Values depend on the seed, the parameter's name and the global element index alone, so they
/// are the same under every plan.
struct initializer {
  enum class kind_type { zeros, ones, normal };
  kind_type kind = kind_type::zeros;
  double stddev = 0;
  friend constexpr bool operator==(initializer const&, initializer const&) = default;
};
/// What a parameter's declaration names: 0, 1, or normal numbers around 0.
inline constexpr initializer zeros{};
inline constexpr initializer ones{initializer::kind_type::ones, 0};
constexpr initializer normal(double stddev) { return {initializer::kind_type::normal, stddev}; }

/// A full parameter name such as `h.attn.qkv.weight`, built while modules are composed.
struct parameter_name {
  static constexpr std::size_t capacity = 96;
  std::array<char, capacity> text{};
  std::size_t length = 0;
  bool fits = true;  ///< false where the end was cut off: who composes the name refuses it

  constexpr parameter_name() = default;
  constexpr explicit parameter_name(std::string_view s) { append(s); }
  constexpr void append(std::string_view s) {
    fits = fits && length + s.size() < capacity;
    for (std::size_t i = 0; i < s.size() && length + 1 < capacity; ++i) text[length++] = s[i];
  }
  [[nodiscard]] constexpr std::string_view view() const { return {text.data(), length}; }
  [[nodiscard]] constexpr parameter_name inside(std::string_view outer) const {
    parameter_name result(outer);
    result.append(".");
    result.append(view());
    result.fits = result.fits && fits;
    return result;
  }
};

/// One use of a parameter by an op, as the constexpr algebra sees it.
struct parameter_use {
  parameter_name name{};
  dimension_list dims{};
  initializer init{};
  bool decays = false;    ///< takes weight decay (matrices and tables do, biases and gains do not)
  bool stacked = false;   ///< the leading dimension counts the copies of a repeated block
  name_id tie = 0;        ///< uses with the same non-zero tie share one parameter
  layout compute{};       ///< as the op reads it
  layout gradient{};      ///< as the op's backward leaves the gradient: partial over the axes of dimensions summed away
  bool trainable = true;  ///< false within `frozen`: there is no gradient
};

/// Declares a parameter of an op: its name within the module, its dimensions, its start, whether it decays, and (for
/// shared parameters) the tie: every declaration with the same tie is the same parameter.
template <fixed_string Name, class Dims, initializer Init, bool Decays, fixed_string Tie = "">
struct parameter {
  static_assert(Name.view().size() < parameter_name::capacity,
                "parameter<Name, ...>: 'Name' must have at most 95 characters; shorten it");
  static constexpr std::string_view name = Name.view();
  using dims_type = Dims;
  static constexpr initializer init = Init;
  static constexpr bool decays = Decays;
  static constexpr name_id tie = Tie.view().empty() ? 0 : id_of(Tie.view());
};

/// The parameters of an op, in the order in which its kernel finds them in a frame.
template <class... Parameters>
struct parameter_list {
  static constexpr std::size_t size = sizeof...(Parameters);
  /// Every dimension of any parameter, once.
  static constexpr dimension_list dims() {
    dimension_list all{};
    ((all = union_of(all, Parameters::dims_type::value)), ...);
    return all;
  }
  /// The uses by an op placed on `op`, with their dimensions as the plan stores them.
  template <class Plan>
  static constexpr std::array<parameter_use, size> uses(op_placement const& op) {
    return {use<Plan, Parameters>(op)...};
  }

 private:
  template <class Plan, class Parameter>
  static constexpr parameter_use use(op_placement const& op) {
    dimension_list const d = Plan::stored(Parameter::dims_type::value);
    return {parameter_name(Parameter::name),
            d,
            Parameter::init,
            Parameter::decays,
            false,
            Parameter::tie,
            op.operand(d),
            op.sum(d),
            detail::trains_under<Plan>};
  }
};

}  // namespace heddle
