// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/repeat.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/nn/sequential.hpp>
#include <tuple>
#include <type_traits>
#include <utility>

namespace heddle::detail {

/// Whether no parameter of a module is trained, as its declaration says. Of a composition of a user's own: unknown, so
/// no.
template <class Module>
inline constexpr bool trains_nothing = false;
template <Primitive Module>
inline constexpr bool trains_nothing<Module> = Module::parameters::size == 0;
template <class Module>
inline constexpr bool trains_nothing<frozen<Module>> = true;
template <NamedModule Module>
inline constexpr bool trains_nothing<Module> = trains_nothing<typename Module::named_module>;
template <class Branch>
inline constexpr bool trains_nothing<residual<Branch>> = trains_nothing<Branch>;
template <class Layers, class Block>
inline constexpr bool trains_nothing<repeat<Layers, Block>> = trains_nothing<Block>;
template <class... Modules>
inline constexpr bool trains_nothing<sequential<Modules...>> = (trains_nothing<Modules> && ...);

/// How many modules at the beginning of a chain train nothing: before and in them no cotangent has a reader. Not the
/// last: it is what a backward begins with.
template <class Modules>
inline constexpr std::size_t forward_only_count = 0;
template <class... Modules>
inline constexpr std::size_t forward_only_count<std::tuple<Modules...>> = [] {
  constexpr bool nothing[] = {trains_nothing<Modules>...};
  std::size_t n = 0;
  while (n + 1 < sizeof...(Modules) && nothing[n]) ++n;
  return n;
}();

/// A module that a model's backward does not reach: it saves nothing, and what its kernels leave for their backward is
/// scratch. The plan puts it around the first modules of a model (plan/stages.hpp), whose parameters are frozen; no
/// model names it.
template <class Module>
struct forward_only {};

template <bool Only, class Module>
struct forward_only_if {
  using type = Module;
};
template <class Module>
struct forward_only_if<true, Module> {
  using type = forward_only<Module>;
};

}  // namespace heddle::detail

namespace heddle {

template <class Module, class Plan, class Input>
struct placed<detail::forward_only<Module>, Plan, Input> : placed<Module, detail::forward_plan<Plan>, Input> {};

namespace detail {
template <class Module, class Plan, class Input>
inline constexpr bool goes_back<placed<forward_only<Module>, Plan, Input>> = false;
}  // namespace detail

}  // namespace heddle
