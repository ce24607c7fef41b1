// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/tensor/accumulation.hpp>

namespace heddle::detail {

/// What a backend may have beside `product`, where a product and its neighbour are one pass: of a backend that lacks
/// it, they are two.
///
/// `product_biased<M, N, K, …>(a, b, row, base, c, scratch)`: c[M,N] = op(a)·op(b) + row[N] in each row + base[M,N],
/// unless that is null; base may be c.
template <class Backend, class T>
concept AddsRowToProduct = requires(T const* in, T* out) {
  Backend::template product_biased<1, 1, 1, false, true>(in, in, in, in, out, out);
};

/// `product_summed<M, N, K>(a, b, c, sums, scratch, sum_scratch)`: c[M,N] = aᵀ·b of a[K,M], and sums[M] = Σ over the
/// rows of a: a weight's gradient, and a bias's. Both replace what stands there. The last is as of
/// `bias_gradient<K, M>`.
template <class Backend, class T>
concept SumsWithProduct = requires(T const* in, T* out, accumulation_t<T>* sums) {
  Backend::template product_summed<1, 1, 1>(in, in, out, out, out, sums);
};

/// Two kernels of a chain: `Sum`, whose backend adds a row of `added_row` elements to each row of what it gives; and
/// `Constant`, which adds such a row, its only parameter.
template <class Sum, class Constant>
concept AddsRow = requires {
  requires Sum::added_row != 0;
  requires Sum::added_row == Constant::added_row;
};

/// Two placed modules of a chain of which both are trained: the backward of `Sum` can leave, in the same pass as its
/// own gradient, the sum of its cotangent over the rows, which is the gradient of `Constant`. The cotangent is the one
/// that both are given.
template <class Sum, class Constant>
concept SumsRow = requires {
  requires Sum::place::trains && Constant::place::trains && Sum::out_dual.empty();
  requires Sum::kernel::summed_row != 0;
  requires Sum::kernel::summed_row == Constant::kernel::added_row;
};

}  // namespace heddle::detail
