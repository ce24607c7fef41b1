// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/attention.hpp>
#include <heddle/backend/cuda/cross_entropy.hpp>
#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/backend/cuda/elements.hpp>
#include <heddle/backend/cuda/embedding.hpp>
#include <heddle/backend/cuda/norm.hpp>
#include <heddle/backend/cuda/optimizer.hpp>
#include <heddle/backend/cuda/pointwise.hpp>
#include <heddle/backend/cuda/product.hpp>
#include <heddle/backend/cuda/random.hpp>
#include <heddle/backend/cuda/rotary.hpp>

namespace heddle {

/// The primitives that modules are made of, on an NVIDIA device, and the memory that they work on: `host_backend`'s
/// members, each given to the compute stream of the calling thread's `cuda::execution`. Pointers are to device memory.
/// A file that calls them is compiled by nvcc, with heddle's folders `include` and `kernels` on its include path.
struct cuda_backend : cuda::elements,
                      cuda::products,
                      cuda::pointwise,
                      cuda::norms,
                      cuda::embeddings,
                      cuda::cross_entropy,
                      cuda::optimizers,
                      cuda::attentions,
                      cuda::rotary_positions,
                      cuda::random {
  using memory = cuda::device_memory;
  using tfloat32_products = struct cuda_tfloat32_backend;
};

/// What `tf32` runs on: `host_tfloat32_backend`'s twin. Tensor cores round the operands of products of float.
struct cuda_tfloat32_backend : cuda_backend {
  using rounded = cuda::tfloat32_products;
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product(float const* a, float const* b, float* c, float* scratch = nullptr) {
    rounded::product<M, N, K, TransposeA, TransposeB>(a, b, c, scratch);
  }
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product_accumulate(float const* a, float const* b, float* c, float* scratch = nullptr) {
    rounded::product_accumulate<M, N, K, TransposeA, TransposeB>(a, b, c, scratch);
  }
};

}  // namespace heddle
