// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/rules.hpp>

namespace heddle {

/// The placement of an op's whole iteration space; every operand's and result's layout follows from it (design §1).
///
/// An operand's *compute layout* is the space's placement restricted to the operand's own dimensions. A result, or the
/// cotangent of an operand, is a sum over the dimensions that it lacks: it comes out partial over the axes that split
/// those. That one rule gives Megatron's f and g (arXiv 1909.08053 §3), the gradient all-reduce of data parallelism,
/// the look-up in a split table, and the norm gradients of sequence parallelism (arXiv 2205.05198 §4.2.2).
struct op_placement {
  dimension_list space{};
  layout placed{};

  /// The compute layout of an operand with these dimensions.
  [[nodiscard]] constexpr layout operand(dimension_list const& dims) const { return restrict_to(placed, dims); }

  /// The layout in which a sum over the space that has these dimensions comes out. `reduced` names dimensions whose
  /// reduction the op's own algorithm completes (the two reductions of a softmax): nothing is pending over those.
  [[nodiscard]] constexpr layout sum(dimension_list const& dims, dimension_list const& reduced = {}) const {
    layout result = restrict_to(placed, dims);
    for (std::size_t a = 0; a < max_axes; ++a)
      if (placed.is_split(a) && !dims.has(placed.axis[a].dim) && !reduced.has(placed.axis[a].dim))
        result.make_partial(a);
    return result;
  }
};

/// Places an op's iteration space. `whole` lists dimensions that the op's algorithm needs undivided.
constexpr op_placement place_op(mesh_value const& mesh, rule_list const& rules, dimension_list const& space,
                                dimension_list const& whole = {}) {
  return {space, place(mesh, rules, space, whole)};
}

/// What an op may do with a partial operand.
enum class linearity { non_linear, linear };

/// The layout of `f(x)` for a pointwise f: the same; only a linear f (a scale, a cast) may meet a pending sum, since
/// f(Σx) = Σf(x). A pending sum under a non-linear f has no answer: `legal` is false.
struct pointwise_result {
  bool legal = true;
  layout result{};
};
constexpr pointwise_result pointwise(layout const& x, linearity f) {
  return {f == linearity::linear || !x.has_partial(), x};
}

/// The layout of a product of two operands contracted over the dimensions that `result` lacks. A product is linear in
/// each operand, so one pending sum passes through. Two are refused: over one axis Σa·Σb is not Σab, and over two the
/// sum of one operand is completed first. So are operands that split a common dimension differently, and one axis used
/// by both for different ends.
struct contraction_result {
  bool legal = true;
  layout result{};
};
constexpr contraction_result contraction(dimension_list const& a_dims, layout const& a, dimension_list const& b_dims,
                                         layout const& b, dimension_list const& result_dims) {
  contraction_result out{};
  if (a.has_partial() && b.has_partial()) return {false, {}};
  for (std::size_t x = 0; x < max_axes; ++x) {
    auto const& in_a = a.axis[x];
    auto const& in_b = b.axis[x];
    if (a.is_partial(x) || b.is_partial(x)) {
      if (a.is_split(x) || b.is_split(x)) return {false, {}};
      out.result.make_partial(x);
      continue;
    }
    if (!a.is_split(x) && !b.is_split(x)) continue;
    auto const& s = a.is_split(x) ? in_a : in_b;
    bool const in_both = a_dims.has(s.dim) && b_dims.has(s.dim);
    if (a.is_split(x) && b.is_split(x) && !(in_a == in_b)) return {false, {}};
    if (in_both && !(in_a == in_b)) return {false, {}};
    if (result_dims.has(s.dim))
      out.result.axis[x] = s;
    else
      out.result.make_partial(x);
  }
  return out;
}

}  // namespace heddle
