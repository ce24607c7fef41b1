// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/name.hpp>
#include <heddle/models/model_concepts.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/repeat.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/nn/sequential.hpp>
#include <string_view>
#include <type_traits>

namespace heddle {

namespace detail {

/// Two names joined by a point, `Length` characters in all; the second alone where the first is empty.
template <std::size_t Length>
constexpr fixed_string<Length + 1> joined_name(std::string_view outer, std::string_view name) {
  char text[Length + 1]{};
  std::size_t n = 0;
  for (char c : outer) text[n++] = c;
  if (!outer.empty()) text[n++] = '.';
  for (char c : name) text[n++] = c;
  return fixed_string<Length + 1>(text);
}
/// Names as types: nvcc deduces no `fixed_string` from a type's arguments.
struct no_name {
  static constexpr std::string_view name = "";
};
template <class Outer, NamedModule Module>
struct name_within {
  static constexpr auto text =
      joined_name<Outer::name.size() + (Outer::name.empty() ? 0 : 1) + Module::name.size()>(Outer::name, Module::name);
  static constexpr std::string_view name = text.view();
};
template <fixed_string... Names>
struct name_set {
  static constexpr bool has(std::string_view name) { return ((Names.view() == name) || ...); }
};

/// A module, whose names begin with `Outer`, with those in the set `Parts` frozen; and whether one is named `name`.
template <class Module, class Outer, class Parts>
struct frozen_parts {
  using type = Module;
  static constexpr bool has(std::string_view) { return false; }
};
template <NamedModule Module, class Outer, class Parts>
struct frozen_parts<Module, Outer, Parts> {
  using here = name_within<Outer, Module>;
  using inner = frozen_parts<typename Module::named_module, here, Parts>;
  using type = std::conditional_t<Parts::has(here::name), frozen<Module>,
                                  named<name_within<no_name, Module>::text, typename inner::type>>;
  static constexpr bool has(std::string_view name) { return here::name == name || inner::has(name); }
};
template <class Module, class Outer, class Parts>
struct frozen_parts<frozen<Module>, Outer, Parts> {
  using type = frozen<Module>;
  static constexpr bool has(std::string_view name) { return frozen_parts<Module, Outer, Parts>::has(name); }
};
template <class Branch, class Outer, class Parts>
struct frozen_parts<residual<Branch>, Outer, Parts> {
  using inner = frozen_parts<Branch, Outer, Parts>;
  using type = residual<typename inner::type>;
  static constexpr bool has(std::string_view name) { return inner::has(name); }
};
template <class Layers, class Block, class Outer, class Parts>
struct frozen_parts<repeat<Layers, Block>, Outer, Parts> {
  using inner = frozen_parts<Block, Outer, Parts>;
  using type = repeat<Layers, typename inner::type>;
  static constexpr bool has(std::string_view name) { return inner::has(name); }
};
template <class... Modules, class Outer, class Parts>
struct frozen_parts<sequential<Modules...>, Outer, Parts> {
  using type = sequential<typename frozen_parts<Modules, Outer, Parts>::type...>;
  static constexpr bool has(std::string_view name) { return (frozen_parts<Modules, Outer, Parts>::has(name) || ...); }
};

template <class Model, fixed_string Part, bool Found>
struct part_of_model {
  static_assert(Found,
                "with_frozen<Model, Parts...>: 'Part', named here, must be the name of a module within 'Model': "
                "its own and those "
                "around it, joined by points, as in the names of its parameters; correct it, or take it out");
  static constexpr bool value = true;
};

}  // namespace detail

/// `Model` with the modules that are called `Parts` frozen (nn/frozen.hpp): "wte", "h" or "h.attn", the beginnings of
/// parameters' names. What a model's own declaration would say with `frozen`, of one that is declared already.
///
/// **Errors.** Each of `Parts` must name a module; and what `frozen` asks for: a tied parameter is frozen in all its
/// uses, so "wte" of a tied GPT-2 goes with "lm_head".
template <LanguageModel Model, fixed_string... Parts>
struct with_frozen : Model {
  static_assert(sizeof...(Parts) > 0,
                "with_frozen<Model, Parts...>: 'Parts' must have a name; add one, or use 'Model'");

 private:
  using with_parts = detail::frozen_parts<typename Model::module, detail::no_name, detail::name_set<Parts...>>;
  static_assert((detail::part_of_model<Model, Parts, with_parts::has(Parts.view())>::value && ...));

 public:
  using module = typename with_parts::type;
};

}  // namespace heddle
