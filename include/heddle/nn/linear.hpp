// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/bias.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/product.hpp>
#include <heddle/nn/sequential.hpp>
#include <type_traits>

namespace heddle {

/// Whether a linear adds a bias.
enum class biased : bool { no, yes };

namespace detail {
template <class D>
struct as_dims {
  using type = dims<D>;
};
template <class... Ds>
struct as_dims<dims<Ds...>> {
  using type = dims<Ds...>;
};
template <class D>
using as_dims_t = typename as_dims<D>::type;
}  // namespace detail

/// y[…, Out] = x[…, In] · weightᵀ + bias, with parameters `weight` [Out, In] and `bias` [Out]. `In` and `Out` are a
/// `dim` or several `dims`. The bias is its own op on the finished output, so it is added once even where the product
/// leaves a pending sum (the row-parallel linear of arXiv 1909.08053 §3).
template <class In, class Out, biased Bias = biased::yes, initializer Init = normal(0.02), fixed_string Tie = "">
using linear = std::conditional_t<
    Bias == biased::yes,
    sequential<product<detail::as_dims_t<In>, detail::as_dims_t<Out>, Init, Tie>, bias<detail::as_dims_t<Out>>>,
    product<detail::as_dims_t<In>, detail::as_dims_t<Out>, Init, Tie>>;

}  // namespace heddle
