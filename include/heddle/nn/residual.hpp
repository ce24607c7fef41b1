// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <heddle/nn/chain_steps.hpp>
#include <heddle/nn/op.hpp>

namespace heddle {

/// y = x + Branch(x). Both terms lie in the placement of their own dimensions, so the sum moves nothing; the cotangent
/// of x is the sum of two complete cotangents. Where the branch ends in an op that can add to what stands in its
/// output, or begins with one whose backward can, that op does the sum and it costs no pass.
template <class Branch>
struct residual {};

template <class Branch, class Plan, class Input>
struct placed<residual<Branch>, Plan, Input> {
  using branch = placed<Branch, Plan, Input>;
  using element = typename Plan::element;
  using input = Input;
  using output = Input;
  static_assert(std::same_as<typename branch::output, Input>,
                "residual<Branch>: the output of 'Branch' must have the dimensions of its input; end the branch with a "
                "linear back to them");

  static constexpr layout input_layout = branch::input_layout;
  static constexpr layout output_layout = branch::output_layout;
  static constexpr std::size_t size = local_size(Plan::mesh::value, Plan::stored(Input::value), input_layout);
  static constexpr auto uses = branch::uses;
  static constexpr auto units = branch::units;
  static constexpr bool needs_input = branch::needs_input;
  static constexpr bool needs_output = false;
  static constexpr bool in_place = false;
  static constexpr bool identity_cotangent = false;
  static constexpr std::size_t sites = branch::sites;
  // The branch's own output, kept apart from the sum where its backward reads it.
  static constexpr std::size_t branch_output = slot<element>(branch::needs_output ? size : 0);
  static constexpr std::size_t saved = branch_output + branch::saved;
  static constexpr std::size_t forward_scratch = branch::forward_scratch;
  static constexpr std::size_t backward_scratch = branch::backward_scratch;

  template <class Context>
  static void forward(Context& c, frame<element> f, element const* x, element* y) {
    element* const branch_y = branch::needs_output ? f.saved : y;
    f.saved += branch_output;
    if constexpr (detail::AddsForward<branch> && !branch::needs_output) {
      branch::forward_onto(c, f, x, x, y);
    } else {
      branch::forward(c, f, x, branch_y);
      Context::backend::template add<size>(x, branch_y, y);
    }
  }

  template <class Context>
  static void backward(Context& c, frame<element> f, element const* x, element const* y, element const* dy,
                       element* dx) {
    element const* const branch_y = branch::needs_output ? f.saved : y;
    f.saved += branch_output;
    if constexpr (detail::AddsBackward<branch>) {
      branch::backward_onto(c, f, x, branch_y, dy, dy, dx);
    } else {
      branch::backward(c, f, x, branch_y, dy, dx);
      Context::backend::template add_to<size>(dy, dx);
    }
  }

  static constexpr void count_forward(traffic_table& t, coordinates const& at) { branch::count_forward(t, at); }
  static constexpr void count_backward(traffic_table& t, coordinates const& at) { branch::count_backward(t, at); }
};

}  // namespace heddle
