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
///
/// cuBLASLt's matrices are these transposed (`product_plans`): a row that is added to rows is its vector that is added
/// to columns, and what is a here is its b.
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

  /// c[M,N] = aᵀ·b of a[K,M] and b[K,N]; sums[M] = Σ over the rows of a. `sum_scratch` is as of `bias_gradient<K, M>`.
  template <std::size_t M, std::size_t N, std::size_t K, class T>
  static void product_summed(T const* a, T const* b, T* c, T* sums, T* scratch,
                             kernels::accumulator_t<T>* sum_scratch) {
    constexpr T const* nothing = nullptr;
    if (detail::multiply<Blas<T>>(detail::shape_of<M, N, K, true, false>(), a, b, nothing, c, scratch,
                                  {CUBLASLT_EPILOGUE_BGRADB, sums}))
      return;
    pointwise::clear(sums, M);
    pointwise::bias_gradient<K, M>(a, sums, sum_scratch);
    basic_products<Blas>::template product<M, N, K, true, false>(a, b, c, scratch);
  }
};

}  // namespace heddle::cuda
