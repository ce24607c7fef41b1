// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

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

/// Two kernels of a chain: `Sum`, whose backend adds a row of `added_row` elements to each row of what it gives; and
/// `Constant`, which adds such a row, its only parameter.
template <class Sum, class Constant>
concept AddsRow = requires {
  requires Sum::added_row != 0;
  requires Sum::added_row == Constant::added_row;
};

}  // namespace heddle::detail
