// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/layout/redistribution.hpp>
#include <heddle/plan/op_walk.hpp>
#include <string>

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

/// Calls `f(placed_value)` for each primitive of a placed module, in order of execution; the block of a repeat once.
template <class Placed, class F>
void for_each_value(F&& f) {
  for_each_op<Placed>([&]<class Module, class Op>(op_tag<Module, Op>, op_site const& site) {
    placed_value v;
    v.where = site.where;
    v.dims = Op::place::out;
    v.at = Op::output_layout;
    v.input_path = Op::in_path;
    v.output_path = Op::out_path;
    v.is_loss = requires { typename Module::is_loss; };
    f(v);
  });
}

}  // namespace heddle
