// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <heddle/nn/op.hpp>
#include <string_view>

namespace heddle {

/// Gives a module a name within its parent: its parameters are called `Name.…`. Names are what checkpoints, initial
/// values and reports go by; modules without one add nothing.
template <fixed_string Name, class Module>
struct named {
  using named_module = Module;
  static constexpr std::string_view name = Name.view();
};

/// What `named` gives. Specialisations ask for this concept, since nvcc deduces no `fixed_string` from a type's
/// arguments.
template <class Module>
concept NamedModule = requires {
  typename Module::named_module;
  { Module::name } -> std::convertible_to<std::string_view>;
};

template <NamedModule Module, class Plan, class Input>
struct placed<Module, Plan, Input> : placed<typename Module::named_module, Plan, Input> {
  static constexpr auto uses = [] {
    auto renamed = placed<typename Module::named_module, Plan, Input>::uses;
    for (auto& u : renamed) u.name = u.name.inside(Module::name);
    return renamed;
  }();

 private:
  static constexpr bool names_fit = [] {
    for (auto const& u : uses)
      if (!u.name.fits) return false;
    return true;
  }();
  static_assert(
      names_fit,
      "named<Name, Module>: the full names of parameters, 'Name' and those inside joined by points, must have "
      "at most 95 characters; shorten a name");
};

}  // namespace heddle
