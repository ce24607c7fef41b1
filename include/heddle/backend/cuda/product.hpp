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

inline bool is_aligned_for_epilogue(void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % epilogue_alignment == 0;
}

template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
constexpr product_shape shape_of() {
  return {.m = M, .n = N, .k = K, .transpose_a = TransposeA, .transpose_b = TransposeB};
}

/// An epilogue with its vector, and the matrix if it has one.
struct product_ending {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  void const* vector = nullptr;
  void* matrix = nullptr;
};

/// c = op(a)·op(b), plus `base` unless it is null, which may be c. False where it was not done: there is no such
/// product with this ending, which is asked for once a shape; or what it would need does not lie as it must.
template <class Blas, class T>
bool multiply(product_shape shape, T const* a, T const* b, T const* base, T* c, T* scratch,
              product_ending const& ending = {}) {
  using A = kernels::accumulator_t<T>;
  bool const plain = ending.kind == CUBLASLT_EPILOGUE_DEFAULT;
  if (!plain && (shape.m == 0 || shape.n == 0 || shape.k == 0 || !is_aligned_for_epilogue(ending.vector) ||
                 !is_aligned_for_epilogue(ending.matrix)))
    return false;
  execution& on = execution::current();
  if (shape.m == 0 || shape.n == 0) return true;
  if (shape.k == 0) {
    if (base == nullptr)
      fill_zero<T>(on.compute(), {c, shape.m * shape.n});
    else if (base != c)
      copy_on_device<T>(on.compute(), {c, shape.m * shape.n}, {base, shape.m * shape.n});
    return true;
  }
  auto const address = reinterpret_cast<std::uintptr_t>(scratch);
  void* const workspace = scratch == nullptr
                              ? nullptr
                              : reinterpret_cast<unsigned char*>(scratch) +
                                    (workspace_alignment - address % workspace_alignment) % workspace_alignment;
  T const* const added = base == nullptr ? c : base;
  shape.element = Blas::element;
  shape.factor = Blas::factor;
  shape.compute = Blas::compute;
  shape.align_a = alignment_of(a);
  shape.align_b = alignment_of(b);
  shape.align_c = alignment_of(c) < alignment_of(added) ? alignment_of(c) : alignment_of(added);
  shape.workspace_bytes = scratch == nullptr ? 0 : product_workspace(shape.m, shape.n) * sizeof(T);
  shape.epilogue = ending.kind;
  product_plan const& plan = on.products().of(shape);
  if (!plan.exists) return false;
  if (!plain) product_plans::set_ending(plan, ending.vector, ending.matrix);
  A const one = 1, kept = base == nullptr ? A(0) : A(1);
  check(cublasLtMatmul(on.blas().get(), plan.product.get(), &one, b, plan.a.get(), a, plan.b.get(), &kept, added,
                       plan.c.get(), c, plan.c.get(), &plan.algorithm, workspace, shape.workspace_bytes,
                       on.compute().get()),
        [&] { return "cublasLtMatmul " + text_of(shape); });
  return true;
}

}  // namespace detail

/// `host::products` by cuBLASLt. Sums are made in float for narrower types, and rounded
/// once, with what stood in c. What a shape's order of sums is, cuBLASLt
/// chooses, once for each execution: by its version, the device, the shape and the alignment of the operands, so that
/// runs of one program on one kind of device agree to the bit. `scratch` has `product_scratch` elements, of any
/// alignment; null is none, for which cuBLASLt may choose a slower algorithm. `Blas<T>` says how matrices of T are
/// multiplied.
template <template <class> class Blas>
struct basic_products {
  template <std::size_t M, std::size_t N, std::size_t K>
  static constexpr std::size_t product_scratch() {
    // So many more that it may begin at any element.
    return M == 0 || N == 0 || K == 0 ? 0 : detail::product_workspace(M, N) + detail::workspace_alignment;
  }

  /// c[M,N] = op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product(T const* a, T const* b, T* c, T* scratch = nullptr) {
    constexpr T const* nothing = nullptr;
    detail::multiply<Blas<T>>(detail::shape_of<M, N, K, TransposeA, TransposeB>(), a, b, nothing, c, scratch);
  }

  /// c[M,N] += op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product_accumulate(T const* a, T const* b, T* c, T* scratch = nullptr) {
    detail::multiply<Blas<T>>(detail::shape_of<M, N, K, TransposeA, TransposeB>(), a, b, static_cast<T const*>(c), c,
                              scratch);
  }
};

using products = basic_products<blas_type>;
/// The same with the operands of products of float rounded to tf32, by tensor cores: `host::tfloat32_products`' twin.
using tfloat32_products = basic_products<tfloat32_blas_type>;

}  // namespace heddle::cuda
