// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/execution.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/product_plans.hpp>
#include <support/accumulator.cuh>

namespace heddle::cuda {

namespace detail {

/// cuBLASLt's own workspace begins at a multiple of this.
inline constexpr std::size_t workspace_alignment = 256;

/// Elements that a product may use beside its operands: for four sums of shares of k, since that is what a workspace is
/// for; in float NVIDIA's recommendation for a large device, 32 MiB, at most. Of a narrow type, whose sums are floats,
/// they have room for two.
constexpr std::size_t product_workspace(std::size_t m, std::size_t n) {
  constexpr std::size_t most = std::size_t{8} << 20;
  std::size_t const wanted = (4 * m * n + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  return wanted < most ? wanted : most;
}

inline unsigned alignment_of(void const* address) {
  auto const low = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address) % 16);
  return low == 0 ? 16 : low & (0U - low);
}

template <class Blas, class T>
void multiply(product_shape shape, T const* a, T const* b, T* c, bool accumulate, T* scratch) {
  using A = kernels::accumulator_t<T>;
  execution& on = execution::current();
  if (shape.m == 0 || shape.n == 0) return;
  if (shape.k == 0) {
    if (!accumulate) fill_zero<T>(on.compute(), {c, shape.m * shape.n});
    return;
  }
  auto const address = reinterpret_cast<std::uintptr_t>(scratch);
  void* const workspace = scratch == nullptr
                              ? nullptr
                              : reinterpret_cast<unsigned char*>(scratch) +
                                    (workspace_alignment - address % workspace_alignment) % workspace_alignment;
  shape.element = Blas::element;
  shape.factor = Blas::factor;
  shape.compute = Blas::compute;
  shape.align_a = alignment_of(a);
  shape.align_b = alignment_of(b);
  shape.align_c = alignment_of(c);
  shape.workspace_bytes = scratch == nullptr ? 0 : product_workspace(shape.m, shape.n) * sizeof(T);
  product_plan const& plan = on.products().of(shape);
  A const one = 1, kept = accumulate ? A(1) : A(0);
  check(cublasLtMatmul(on.blas().get(), plan.product.get(), &one, b, plan.a.get(), a, plan.b.get(), &kept, c,
                       plan.c.get(), c, plan.c.get(), &plan.algorithm, workspace, shape.workspace_bytes,
                       on.compute().get()),
        [&] { return "cublasLtMatmul " + text_of(shape); });
}

}  // namespace detail

/// `host::products` by cuBLASLt. Sums are made in float for narrower types, and rounded
/// once, with what stood in c. What a shape's order of sums is, cuBLASLt
/// chooses, once for each execution: by its version, the device, the shape and the alignment of the operands, so that
/// runs of one program on one kind of device agree to the bit. `scratch` has `product_scratch` elements, of any
/// alignment; null is none, for which cuBLASLt may choose a slower algorithm.
struct products {
  template <std::size_t M, std::size_t N, std::size_t K>
  static constexpr std::size_t product_scratch() {
    // So many more that it may begin at any element.
    return M == 0 || N == 0 || K == 0 ? 0 : detail::product_workspace(M, N) + detail::workspace_alignment;
  }

  /// c[M,N] = op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product(T const* a, T const* b, T* c, T* scratch = nullptr) {
    detail::multiply<blas_type<T>, T>({.m = M, .n = N, .k = K, .transpose_a = TransposeA, .transpose_b = TransposeB}, a,
                                      b, c, false, scratch);
  }

  /// c[M,N] += op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product_accumulate(T const* a, T const* b, T* c, T* scratch = nullptr) {
    detail::multiply<blas_type<T>, T>({.m = M, .n = N, .k = K, .transpose_a = TransposeA, .transpose_b = TransposeB}, a,
                                      b, c, true, scratch);
  }
};

/// The same with the operands of products of float rounded to tf32, by tensor cores: `host::tfloat32_products`' twin.
struct tfloat32_products {
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product(float const* a, float const* b, float* c, float* scratch = nullptr) {
    multiply<M, N, K, TransposeA, TransposeB>(a, b, c, false, scratch);
  }
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product_accumulate(float const* a, float const* b, float* c, float* scratch = nullptr) {
    multiply<M, N, K, TransposeA, TransposeB>(a, b, c, true, scratch);
  }

 private:
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void multiply(float const* a, float const* b, float* c, bool accumulate, float* scratch) {
    detail::multiply<tfloat32_blas_type, float>(
        {.m = M, .n = N, .k = K, .transpose_a = TransposeA, .transpose_b = TransposeB}, a, b, c, accumulate, scratch);
  }
};

}  // namespace heddle::cuda
