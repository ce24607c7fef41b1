// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/bias.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/product.hpp>
#include <heddle/nn/sequential.hpp>

namespace heddle {

/// Whether a linear adds a bias.
enum class biased : bool { no, yes };

namespace detail {
template <class In, class Out, biased Bias, initializer Init, fixed_string Tie>
struct linear_modules {
  using type = sequential<product<In, Out, Init, Tie>, bias<Out>>;
};
template <class In, class Out, initializer Init, fixed_string Tie>
struct linear_modules<In, Out, biased::no, Init, Tie> {
  using type = product<In, Out, Init, Tie>;
};
template <class D>
struct as_dims {
  using type = dims<D>;
};
template <class... Ds>
struct as_dims<dims<Ds...>> {
  using type = dims<Ds...>;
};
}  // namespace detail

/// y[…, Out] = x[…, In] · weightᵀ + bias, with parameters `weight` [Out, In] and `bias` [Out]. `In` and `Out` are a
/// `dim` or several `dims`. The bias is its own op on the finished output, so it is added once even where the product
/// leaves a pending sum (the row-parallel linear of arXiv 1909.08053 §3).
template <class In, class Out, biased Bias = biased::yes, initializer Init = normal(0.02), fixed_string Tie = "">
using linear = typename detail::linear_modules<typename detail::as_dims<In>::type, typename detail::as_dims<Out>::type,
                                               Bias, Init, Tie>::type;

}  // namespace heddle
