// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/pointwise.hpp>
#include <heddle/backend/cuda/product.hpp>

namespace heddle::cuda {

/// Products with what stands beside them, as one call of cuBLASLt: its epilogues. Each is what its parts would be, but
/// that what is between them is not rounded to T. Where cuBLASLt has no such product (of double it has none), or a
/// vector or matrix does not begin at a multiple of 16 bytes, it is done in parts, by kernels of their own: found once
/// a shape. `scratch` is as of `product`.
template <template <class> class Blas>
struct fused_products : basic_products<Blas> {
  /// c[M,N] = op(a)[M,K]·op(b)[K,N] + row[N] in each row, plus base[M,N] unless it is null; base may be c
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product_biased(T const* a, T const* b, T const* row, T const* base, T* c, T* scratch) {
    if (detail::multiply<Blas<T>>(detail::shape_of<M, N, K, TransposeA, TransposeB>(), a, b, base, c, scratch,
                                  {CUBLASLT_EPILOGUE_BIAS, row}))
      return;
    // Null adds nothing.
    pointwise::biased_sum<M, N>(row, c, base);
    basic_products<Blas>::template product_accumulate<M, N, K, TransposeA, TransposeB>(a, b, c, scratch);
  }
};

}  // namespace heddle::cuda
