// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/layout/redistribution.hpp>
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

/// What a primitive module gives, and what it moves for that: one row of a report.
struct placed_value {
  std::string where{};  ///< the names around the module, "h.attn.qkv"
  dimension_list dims{};
  layout at{};                   ///< as the next module finds it
  redistribution input_path{};   ///< its input on the way to the op
  redistribution output_path{};  ///< its output on the way from the op
  bool is_loss = false;
};

namespace detail {

template <class Placed>
struct value_walk;

inline std::string joined_names(std::string const& outer, std::string_view name) {
  return outer.empty() ? std::string(name) : outer + "." + std::string(name);
}

}  // namespace detail

/// Calls `f(placed_value)` for each primitive of a placed module, in order of execution; the block of a repeat once.
template <class Placed, class F>
void for_each_value(F&& f, std::string const& outer = {}) {
  detail::value_walk<Placed>::visit(f, outer);
}

namespace detail {

template <class Module, class R, class Input>
struct value_walk<placed<Module, R, Input>> {
  using here = placed<Module, R, Input>;
  template <class F>
  static void visit(F& f, std::string const& outer) {
    placed_value v;
    v.where = outer;
    v.dims = here::place::out;
    v.at = here::output_layout;
    v.input_path = here::in_path;
    v.output_path = here::out_path;
    v.is_loss = requires { typename Module::is_loss; };
    f(v);
  }
};
template <NamedModule Module, class R, class Input>
struct value_walk<placed<Module, R, Input>> {
  template <class F>
  static void visit(F& f, std::string const& outer) {
    value_walk<placed<typename Module::named_module, R, Input>>::visit(f, joined_names(outer, Module::name));
  }
};
template <class Branch, class R, class Input>
struct value_walk<placed<residual<Branch>, R, Input>> : value_walk<placed<Branch, R, Input>> {};
template <class Layers, class Block, class R, class Input>
struct value_walk<placed<repeat<Layers, Block>, R, Input>> : value_walk<placed<Block, R, Input>> {};
template <class... Modules, class R, class Input>
struct value_walk<placed<sequential<Modules...>, R, Input>> {
  template <class F>
  static void visit(F& f, std::string const& outer) {
    visit_all(f, outer, std::make_index_sequence<sizeof...(Modules)>{});
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
  static void visit_all(F& f, std::string const& outer, std::index_sequence<Index...>) {
    (value_walk<placed<module<Index>, R, typename decltype(input_of<Index>())::type>>::visit(f, outer), ...);
  }
};

}  // namespace detail

}  // namespace heddle
