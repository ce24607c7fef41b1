// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/nn/op.hpp>

namespace heddle {

/// Gives a module a name within its parent: its parameters are called `Name.…`. Names are what checkpoints, initial
/// values and reports go by; modules without one add nothing.
template <fixed_string Name, class Module>
struct named {};

template <fixed_string Name, class Module, class Plan, class Input>
struct placed<named<Name, Module>, Plan, Input> : placed<Module, Plan, Input> {
  static constexpr auto uses = [] {
    auto renamed = placed<Module, Plan, Input>::uses;
    for (auto& u : renamed) u.name = u.name.inside(Name.view());
    return renamed;
  }();
};

}  // namespace heddle
