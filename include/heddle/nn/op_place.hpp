// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/op_rules.hpp>
#include <heddle/layout/redistribution.hpp>
#include <heddle/nn/frozen_plan.hpp>

namespace heddle {

/// Where a primitive module's op lies under a plan: its iteration space, the layouts of its operands and results, and
/// the local extent of every dimension. A module's `kernel<Place>` reads its sizes from here.
template <class Module, class Plan, class Input>
struct op_place {
  using plan = Plan;
  using element = typename Plan::element;
  using input_dims = Input;
  using output_dims = typename Module::template output<Input>;
  /// Whether the op's parameters are trained: within `frozen` (nn/frozen.hpp) nobody reads their gradients.
  static constexpr bool trains = detail::trains_under<Plan>;

  static constexpr mesh_value mesh = Plan::mesh::value;
  static constexpr dimension_list in = Plan::stored(Input::value);
  static constexpr dimension_list out = Plan::stored(output_dims::value);
  static constexpr op_placement op = place_op(
      mesh, Plan::rules::value, union_of(union_of(in, Plan::stored(Module::parameters::dims())), out), Module::whole);

  static constexpr layout input_layout = op.operand(in);
  static constexpr layout output_layout = op.sum(out, Module::reduced);
  /// Token ids, and targets, of this op: every rank is given whole sequences of its part of the batch. A kernel that
  /// takes the path counts it.
  static constexpr dimension_list token_dims = Plan::tokens::value;
  static constexpr redistribution token_path =
      find_redistribution(mesh, token_dims, Plan::token_layout, op.operand(token_dims));

  /// Local extent of dimension `Name`, padding included.
  template <class Name>
  static constexpr std::size_t extent = op.space.dim[op.space.index_of(id_v<Name>)].stored /
                                        ways_of(mesh, op.placed, id_v<Name>);
  static constexpr std::size_t input_size = local_size(mesh, in, input_layout);
  static constexpr std::size_t output_size = local_size(mesh, out, output_layout);

  /// The block of dimension `Name` that the rank at `at` works on.
  template <class Name>
  static constexpr block_range block(coordinates const& at) {
    return local_block(mesh, op.space.dim[op.space.index_of(id_v<Name>)], op.placed, at);
  }
  /// The mesh axes that split dimension `Name`, as a bit set: whom to ask when a reduction over it is needed.
  template <class Name>
  static constexpr unsigned axes_of() {
    unsigned set = 0;
    for (std::size_t a = 0; a != mesh.axes; ++a)
      if (op.placed.is_split(a) && op.placed.axis[a].dim == id_v<Name>) set |= 1U << a;
    return set;
  }
};

/// `Place` with `Rows` of the `All` rows of a kernel that says it has `independent_rows`.
template <class Place, std::size_t All, std::size_t Rows>
struct place_of_rows : Place {
  static constexpr std::size_t input_size = Place::input_size / All * Rows;
  static constexpr std::size_t output_size =  // a loss has one
      Place::output_size % All == 0 ? Place::output_size / All * Rows : Place::output_size;
  static constexpr redistribution token_path{.exists = true};  // whoever asks for some rows has their targets
};

}  // namespace heddle
