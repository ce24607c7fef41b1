// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/forward_only.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/repeat.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/nn/sequential.hpp>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace heddle {

/// Where a primitive module stands in a composition.
struct op_site {
  std::string where{};     ///< the names around the module, "h.attn.qkv"
  std::size_t copies = 1;  ///< times that a rank executes it in one pass: its local layers, inside a repeated block
  bool repeated = false;   ///< inside a repeated block
};

/// A primitive module and how it is placed, as a value.
template <class ModuleType, class Placed>
struct op_tag {
  using module = ModuleType;
  using placed = Placed;
};

/// The name of a module's template, "product" of `heddle::product<…>`: how reports call an op, also one of a user's
/// own.
template <class Module>
constexpr std::string_view op_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("Module = ") + std::string_view("Module = ").size());
  text = text.substr(0, text.find_first_of("<;]"));
  std::size_t const scope = text.rfind(':');
  return scope == std::string_view::npos ? text : text.substr(scope + 1);
}

namespace detail {

template <class Placed>
struct op_walk;

inline op_site inside(op_site site, std::string_view name) {
  site.where += (site.where.empty() ? "" : ".") + std::string(name);
  return site;
}

}  // namespace detail

/// Calls `f(op_tag<Module, placed<Module, …>>, op_site)` for each primitive of a placed module, in order of execution;
/// the block of a repeat once. The uses of parameters come in the order of `Placed::uses`.
template <class Placed, class F>
void for_each_op(F&& f, op_site const& outer = {}) {
  detail::op_walk<Placed>::visit(f, outer);
}

namespace detail {

template <class Module, class R, class Input>
struct op_walk<placed<Module, R, Input>> {
  template <class F>
  static void visit(F& f, op_site const& site) {
    f(op_tag<Module, placed<Module, R, Input>>{}, site);
  }
};
template <NamedModule Module, class R, class Input>
struct op_walk<placed<Module, R, Input>> {
  template <class F>
  static void visit(F& f, op_site const& site) {
    op_walk<placed<typename Module::named_module, R, Input>>::visit(f, inside(site, Module::name));
  }
};
template <class Module, class R, class Input>
struct op_walk<placed<frozen<Module>, R, Input>> : op_walk<placed<Module, freeze_t<R>, Input>> {};
template <class Module, class R, class Input>
struct op_walk<placed<forward_only<Module>, R, Input>> : op_walk<placed<Module, forward_plan<R>, Input>> {};
template <class Branch, class R, class Input>
struct op_walk<placed<residual<Branch>, R, Input>> : op_walk<placed<Branch, R, Input>> {};
template <class Layers, class Block, class R, class Input>
struct op_walk<placed<repeat<Layers, Block>, R, Input>> {
  template <class F>
  static void visit(F& f, op_site site) {
    site.copies *= placed<repeat<Layers, Block>, R, Input>::local_layers;
    site.repeated = true;
    op_walk<placed<Block, R, Input>>::visit(f, site);
  }
};
template <class... Modules, class R, class Input>
struct op_walk<placed<sequential<Modules...>, R, Input>> {
  template <class F>
  static void visit(F& f, op_site const& site) {
    visit_all(f, site, std::make_index_sequence<sizeof...(Modules)>{});
  }

 private:
  template <std::size_t Index>
  using module = std::tuple_element_t<Index, std::tuple<Modules...>>;
  using here = placed<sequential<Modules...>, R, Input>;
  template <std::size_t Index>
  static constexpr auto input_of() {
    if constexpr (Index == 0)
      return std::type_identity<Input>{};
    else
      return std::type_identity<typename here::template child<Index - 1>::output>{};
  }
  template <class F, std::size_t... Index>
  static void visit_all(F& f, op_site const& site, std::index_sequence<Index...>) {
    (op_walk<placed<module<Index>, R, typename decltype(input_of<Index>())::type>>::visit(f, site), ...);
  }
};

}  // namespace detail

}  // namespace heddle
