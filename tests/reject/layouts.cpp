// SPDX-License-Identifier: Apache-2.0
// also: nvcc
#include <heddle/layout/names.hpp>
#include <heddle/layout/typed_rules.hpp>

using namespace heddle;

using world = mesh<axis<dp, 2>, axis<tp, 4>>;
using batch_dim = dim<batch, 8>;
using embed_dim = dim<embed, 16>;
using mlp_dim = dim<mlp, 64>;
using x_dims = dims<batch_dim, embed_dim>;
using w_dims = dims<embed_dim, mlp_dim>;
using y_dims = dims<batch_dim, mlp_dim>;
using replicated = layout_of<world>;
using partial_tp = layout_of<world, partial<tp>>;
using partial_dp = layout_of<world, partial<dp>>;
using embed_tp = layout_of<world, split<embed, tp>>;
using mlp_tp = layout_of<world, split<mlp, tp>>;
struct anything {};

#if defined(REJECT_AXIS_TWICE_IN_A_LAYOUT)  // expect: an axis must appear at most once in a layout
// expect: remove it from one of the parts
// shows: heddle::tp
constexpr auto refused = layout_of<world, split<batch, tp>, split<embed, tp>>::value;
#elif defined(REJECT_SPLIT_AND_PARTIAL)    // expect: an axis must appear at most once in a layout
constexpr auto refused = layout_of<world, split<batch, dp, tp>, partial<tp>>::value;
#elif defined(REJECT_AXIS_THE_MESH_LACKS)  // expect: 'Axis' must be an axis of the mesh
// shows: heddle::pp
constexpr auto refused = layout_of<world, split<batch, pp>>::value;
#elif defined(REJECT_AXIS_AS_A_PART)       // expect: 'Part' must be a split<Dimension, Axes...> or a partial<Axes...>
// shows: heddle::tp
constexpr auto refused = layout_of<world, tp>::value;
#elif defined(REJECT_NO_MESH)              // expect: layout_of<Mesh, Parts...>: 'Mesh' must be a mesh<Axes...>
constexpr auto refused = layout_of<anything>::value;
#elif defined(REJECT_EMPTY_DIMENSION)      // expect: dim<Name, Size>: 'Size' must be at least 1
// shows: heddle::embed
constexpr auto refused = dim<embed, 0>::size;
#elif defined(REJECT_UNCOUNTABLE_DIMENSIONS)    // expect: dims<Ds...>: must have at most 2^56 elements
// shows: 1099511627776
constexpr auto refused = dims<dim<batch, std::size_t{1} << 40>, dim<embed, std::size_t{1} << 40>>::rank;
#elif defined(REJECT_UNCOUNTABLE_MESH)          // expect: mesh<Axes...>: must have at most 2^32 ranks
constexpr auto refused = mesh<axis<dp, std::size_t{1} << 33>, axis<tp, std::size_t{1} << 33>>::size;
#elif defined(REJECT_NO_AXIS)                   // expect: 'Axes' must be axis names; name at least one axis
constexpr auto refused = sizeof(split<batch>);
#elif defined(REJECT_PARTIAL_OVER_A_DIMENSION)  // expect: 'Axes' must be axis names
constexpr auto refused = sizeof(partial<batch>);
#elif defined(REJECT_AXIS_TWICE_IN_A_MESH)  // expect: each axis name must appear once; multiply the sizes or rename one
constexpr auto refused = mesh<axis<tp, 2>, axis<dp, 2>, axis<tp, 4>>::size;
#elif defined(REJECT_EMPTY_AXIS)            // expect: 'Size' must be at least 1
constexpr auto refused = axis<tp, 0>::size;
#elif defined(REJECT_NOT_AN_AXIS_NAME)      // expect: axis<Name, Size>: 'Name' must be an axis name
// shows: anything
constexpr auto refused = axis<anything, 2>::size;
#elif defined(REJECT_NOT_AN_AXIS)           // expect: each argument must be an axis<Name, Size>; wrap the name
constexpr auto refused = mesh<tp>::size;
#elif defined(REJECT_NOT_A_DIMENSION_NAME)  // expect: dim<Name, Size>: 'Name' must be a dimension name
constexpr auto refused = dim<tp, 2>::size;
#elif defined(REJECT_DIMENSION_TWICE)       // expect: each dimension name must appear once; rename one of the two
constexpr auto refused = dims<batch_dim, embed_dim, dim<batch, 2>>::rank;
#elif defined(REJECT_TWO_PARTIAL_OPERANDS)  // expect: at most one operand must be partial
// expect: redistribute one of the two first
constexpr auto refused = contraction_of<y_dims, x_dims, partial_tp, w_dims, partial_tp>::value;
#elif defined(REJECT_OPERANDS_SPLIT_UNLIKE)     // expect: the operands must split a common dimension alike
constexpr auto refused = contraction_of<y_dims, x_dims, embed_tp, w_dims, replicated>::value;
#elif defined(REJECT_ONE_AXIS_FOR_TWO_ENDS)     // expect: and use no axis for two ends
constexpr auto refused = contraction_of<y_dims, x_dims, layout_of<world, split<batch, tp>>, w_dims, mlp_tp>::value;
#elif defined(REJECT_PARTIAL_UNDER_NON_LINEAR)  // expect: 'Operand' must not be partial where 'Fn' is non-linear
constexpr auto refused = pointwise_of<partial_tp, linearity::non_linear>::value;
#elif defined(REJECT_BECOMING_PARTIAL)          // expect: 'To' must not be partial where 'From' is not
constexpr auto refused = redistribution_of<world, x_dims, replicated, partial_dp>::value;
#elif defined(REJECT_UNEQUAL_PARTS)  // expect: both layouts must split dimensions that 'Dims' has into equal parts
// shows: 18
constexpr auto refused = redistribution_of<world, dims<dim<embed, 18>>, replicated, embed_tp>::value;
#elif defined(REJECT_SPLIT_OF_ANOTHER_DIMENSION)  // expect: both layouts must split dimensions that 'Dims' has
constexpr auto refused = redistribution_of<world, x_dims, replicated, mlp_tp>::value;
#elif defined(REJECT_REPEATED_RULE)               // expect: a rule must appear once; remove the repeated
constexpr auto refused = rules<shard<mlp, tp>, shard<batch, dp>, shard<mlp, tp>>::value;
#elif defined(REJECT_RULE_WITHOUT_AXIS)           // expect: 'Axis' must be an axis name; write shard<heads, tp>
constexpr auto refused = shard<mlp, batch>::value;
#else
static_assert(contraction_of<y_dims, x_dims, partial_tp, w_dims, replicated>::value == partial_tp::value);
static_assert(contraction_of<y_dims, x_dims, embed_tp, w_dims, embed_tp>::value == partial_tp::value);
static_assert(contraction_of<y_dims, x_dims, replicated, w_dims, mlp_tp>::value == mlp_tp::value);
static_assert(pointwise_of<partial_tp, linearity::linear>::value == partial_tp::value);
static_assert(redistribution_of<world, x_dims, partial_tp, embed_tp>::value.count == 1);
static_assert(rules<shard<mlp, tp>, shard<batch, dp>>::value.count == 2);
#endif
