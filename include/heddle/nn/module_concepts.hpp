// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <heddle/layout/dim.hpp>

namespace heddle {

/// A primitive module: one op with an op rule. What a user writes to add a module of their own.
///
/// **Minimal complete definition.**
///   `parameters`                     a `parameter_list<parameter<…>…>`
///   `template output<Input>`         the dimensions of the result for an input of dimensions `Input`
///   `whole`                          dimension_list: dimensions the algorithm needs undivided
///   `reduced`                        dimension_list: dimensions whose reduction the algorithm completes itself
///   `template kernel<Place>`         the computation, see `op_place` (nn/op.hpp); `Place` gives local extents by name
///
/// From these follow the layouts of every operand and cotangent, all redistributions, and the memory.
/// **Laws.** `backward` is the adjoint of `forward` at the same input (tests: central differences); both are pure
/// functions of their arguments, the parameters and the random key.
/// **Models.** product, bias, embedding, position_embedding, layer_norm, rms_norm, rotary, causal_attention,
/// activation, gated_activation, dropout, cross_entropy.
template <class Module>
concept Primitive = requires {
  typename Module::parameters;
  typename Module::primitive_tag;
  { Module::whole } -> std::convertible_to<dimension_list>;
  { Module::reduced } -> std::convertible_to<dimension_list>;
};

/// Base of primitive modules, with the defaults that most have: no parameter, every dimension divisible.
struct primitive {
  using primitive_tag = void;
  static constexpr dimension_list whole{};
  static constexpr dimension_list reduced{};
};

}  // namespace heddle
