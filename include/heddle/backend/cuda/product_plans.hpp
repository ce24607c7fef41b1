// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/blas.hpp>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

namespace heddle::cuda {

/// How cuBLASLt multiplies matrices of T: sums of bfloat16 and half in float, and float's products not rounded to TF32.
template <class T>
struct blas_type;
template <>
struct blas_type<float> {
  static constexpr cudaDataType_t element = CUDA_R_32F, factor = CUDA_R_32F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};
template <>
struct blas_type<double> {
  static constexpr cudaDataType_t element = CUDA_R_64F, factor = CUDA_R_64F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_64F;
};
template <>
struct blas_type<__nv_bfloat16> {
  static constexpr cudaDataType_t element = CUDA_R_16BF, factor = CUDA_R_32F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};
template <>
struct blas_type<__half> {
  static constexpr cudaDataType_t element = CUDA_R_16F, factor = CUDA_R_32F;
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
};
/// The same of products of float whose operands are rounded to TF32.
template <class T>
struct tfloat32_blas_type;
template <>
struct tfloat32_blas_type<float> : blas_type<float> {
  static constexpr cublasComputeType_t compute = CUBLAS_COMPUTE_32F_FAST_TF32;
};

/// A product c[m,n] (+)= op(a)[m,k]·op(b)[k,n] of row-major matrices, by what cuBLASLt chooses an algorithm. Alignments
/// are those of the addresses, in bytes: 16 where they are that much or more.
struct product_shape {
  std::size_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  cudaDataType_t element{}, factor{};
  cublasComputeType_t compute{};
  unsigned align_a = 16, align_b = 16, align_c = 16;
  std::size_t workspace_bytes = 0;  ///< that it may use
  /// What it does before it rounds, with a vector and a matrix [m,n] of c's elements, at multiples of
  /// `epilogue_alignment`.
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  // clang-tidy 14 takes the 0 of a comparison that it makes itself for ours.
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(product_shape const&, product_shape const&) = default;
};

/// Where the vector and the matrix of an epilogue begin, in bytes; and how many columns of the matrix are one of
/// these: what cublasLt.h asks for of the matrix, and what its kernels take of the vector.
inline constexpr std::size_t epilogue_alignment = 16, epilogue_columns = 8;

namespace detail {

inline std::string text_of(product_shape const& p) {
  return "of a product [" + std::to_string(p.m) + ", " + std::to_string(p.k) + "] x [" + std::to_string(p.k) + ", " +
         std::to_string(p.n) + "]";
}

struct destroy_product {
  // They fail only for what is not there.
  void operator()(cublasLtMatmulDescOpaque_t* one) const noexcept { (void)cublasLtMatmulDescDestroy(one); }
  void operator()(cublasLtMatrixLayoutOpaque_t* one) const noexcept { (void)cublasLtMatrixLayoutDestroy(one); }
  void operator()(cublasLtMatmulPreferenceOpaque_t* one) const noexcept { (void)cublasLtMatmulPreferenceDestroy(one); }
};
template <class Opaque>
using owned = std::unique_ptr<Opaque, destroy_product>;

}  // namespace detail

/// What cuBLASLt calls a product, and the algorithm that it chose for it.
struct product_plan {
  detail::owned<cublasLtMatmulDescOpaque_t> product;
  detail::owned<cublasLtMatrixLayoutOpaque_t> a, b, c;
  cublasLtMatmulAlgo_t algorithm{};
  bool exists = true;  ///< false where cuBLASLt has none with this epilogue
};

/// The plans of the products that an execution has met: each is asked for once. cuBLASLt's matrices have their columns
/// one after the other, so it is told of cᵀ = op(b)ᵀ·op(a)ᵀ: `a` there is b here. Algorithms that add up in the
/// result's own type are not taken, so that nothing narrower than the sums' type is summed in. A product without an
/// algorithm is an error; one with an epilogue is remembered as such, since it can be had in parts.
class product_plans {
 public:
  explicit product_plans(blas_handle const& handle) : handle_(&handle) {}

  product_plan const& of(product_shape const& p) {
    auto const found = plans_.find(p);
    return found != plans_.end() ? found->second : plans_.emplace(p, made(p)).first->second;
  }
  [[nodiscard]] std::size_t size() const { return plans_.size(); }
  /// Where the next call of a product with an epilogue has its vector and matrix.
  static void set_ending(product_plan const& plan, void const* vector, void* matrix) {
    set(plan.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
    if (matrix != nullptr) set(plan.product.get(), CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, matrix);
  }

 private:
  // Of where an epilogue's vector and matrix begin, an algorithm's choice reads the alignment alone: an address that
  // nobody reads has no more of it than is promised.
  static void set_epilogue(cublasLtMatmulDesc_t product, product_shape const& p) {
    if (p.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return;
    std::uintptr_t const address = epilogue_alignment;
    static_assert(sizeof address == sizeof(void*));
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, p.epilogue);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, address);
    if (p.epilogue != CUBLASLT_EPILOGUE_GELU_AUX_BIAS) return;
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, address);
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, static_cast<std::int64_t>(p.n));
  }

  template <class Value>
  static void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, Value const& value) {
    check(cublasLtMatmulDescSetAttribute(product, what, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
  }
  template <class Value>
  static void set(cublasLtMatmulPreference_t wish, cublasLtMatmulPreferenceAttributes_t what, Value const& value) {
    check(cublasLtMatmulPreferenceSetAttribute(wish, what, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  /// Of a row-major matrix [rows, columns].
  static detail::owned<cublasLtMatrixLayoutOpaque_t> layout(product_shape const& p, std::size_t rows,
                                                            std::size_t columns) {
    cublasLtMatrixLayout_t one = nullptr;
    check(cublasLtMatrixLayoutCreate(&one, p.element, columns, rows, static_cast<std::int64_t>(columns)),
          [&] { return "cublasLtMatrixLayoutCreate " + detail::text_of(p); });
    return detail::owned<cublasLtMatrixLayoutOpaque_t>(one);
  }

  [[nodiscard]] product_plan made(product_shape const& p) const {
    product_plan plan;
    cublasLtMatmulDesc_t product = nullptr;
    check(cublasLtMatmulDescCreate(&product, p.compute, p.factor), "cublasLtMatmulDescCreate");
    plan.product.reset(product);
    cublasOperation_t const turned = CUBLAS_OP_T;
    if (p.transpose_b) set(product, CUBLASLT_MATMUL_DESC_TRANSA, turned);
    if (p.transpose_a) set(product, CUBLASLT_MATMUL_DESC_TRANSB, turned);
    set_epilogue(product, p);
    plan.a = p.transpose_b ? layout(p, p.n, p.k) : layout(p, p.k, p.n);
    plan.b = p.transpose_a ? layout(p, p.k, p.m) : layout(p, p.m, p.k);
    plan.c = layout(p, p.m, p.n);

    cublasLtMatmulPreference_t raw = nullptr;
    check(cublasLtMatmulPreferenceCreate(&raw), "cublasLtMatmulPreferenceCreate");
    detail::owned<cublasLtMatmulPreferenceOpaque_t> const wish(raw);
    std::uint64_t const bytes = p.workspace_bytes;
    std::uint32_t const schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, a = p.align_b, b = p.align_a, c = p.align_c;
    set(raw, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes);
    set(raw, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a);
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b);
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c);
    set(raw, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    auto const call = [&] { return "cublasLtMatmulAlgoGetHeuristic " + detail::text_of(p); };
    cublasStatus_t const asked = cublasLtMatmulAlgoGetHeuristic(handle_->get(), product, plan.a.get(), plan.b.get(),
                                                                plan.c.get(), plan.c.get(), raw, 1, &best, &found);
    cublasStatus_t const status = asked != CUBLAS_STATUS_SUCCESS ? asked
                                  : found == 0                   ? CUBLAS_STATUS_NOT_SUPPORTED
                                                                 : best.state;
    // What is wrong with the product itself is found without the epilogue, too.
    plan.exists = status == CUBLAS_STATUS_SUCCESS;
    if (p.epilogue == CUBLASLT_EPILOGUE_DEFAULT) check(status, call);
    plan.algorithm = best.algo;
    return plan;
  }

  blas_handle const* handle_;
  std::map<product_shape, product_plan> plans_;
};

}  // namespace heddle::cuda
