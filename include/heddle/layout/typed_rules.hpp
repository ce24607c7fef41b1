// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/layout/layout_of.hpp>
#include <heddle/layout/op_rules.hpp>
#include <heddle/layout/redistribution.hpp>

namespace heddle {

// The op rules and the path search for layouts written by hand (`layout_of<…>`), as types that refuse what has no
// answer with a sentence. The constexpr functions under them report it as a value.

/// The layout of `Fn(x)` for a pointwise function.
template <class Operand, linearity Fn>
struct pointwise_of {
  static_assert(
      pointwise(Operand::value, Fn).legal,
      "pointwise_of<Operand, Fn>: 'Operand' must not be partial where 'Fn' is non-linear, since a sum inside f is not "
      "a sum outside it; redistribute it first");
  static constexpr layout value = pointwise(Operand::value, Fn).result;
};

/// The layout of a product of two operands, contracted over the dimensions that `ResultDims` lacks.
template <class ResultDims, class FirstDims, class First, class SecondDims, class Second>
struct contraction_of {
  static constexpr bool both_partial = First::value.has_partial() && Second::value.has_partial();
  static_assert(!both_partial,
                "contraction_of<ResultDims, FirstDims, First, SecondDims, Second>: at most one operand must be "
                "partial, since a product of sums is not the sum of products; redistribute one of the two first");
  static constexpr contraction_result found =
      contraction(FirstDims::value, First::value, SecondDims::value, Second::value, ResultDims::value);
  static_assert(both_partial || found.legal,
                "contraction_of<ResultDims, FirstDims, First, SecondDims, Second>: the operands must split a common "
                "dimension alike, and use no axis for two ends; redistribute one of the two first");
  static constexpr layout value = found.result;
};

/// The path from layout `From` of a tensor to layout `To`: `value.cost` elements per rank.
template <class Mesh, class Dims, class From, class To>
struct redistribution_of {
  static constexpr redistribution value = find_redistribution(Mesh::value, Dims::value, From::value, To::value);

 private:
  static constexpr bool becomes_partial = [] {
    for (std::size_t a = 0; a < Mesh::value.axes; ++a)
      if (To::value.is_partial(a) && !From::value.is_partial(a)) return true;
    return false;
  }();
  static_assert(
      !becomes_partial,
      "redistribution_of<Mesh, Dims, From, To>: 'To' must not be partial where 'From' is not; a value that is "
      "complete stays so, so take partial<...> out of 'To'");
  static_assert(
      becomes_partial || value.exists,
      "redistribution_of<Mesh, Dims, From, To>: both layouts must split dimensions that 'Dims' has into equal "
      "parts; change the sizes or split another dimension");
};

}  // namespace heddle
