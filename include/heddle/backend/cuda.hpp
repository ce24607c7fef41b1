// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/attention.hpp>
#include <heddle/backend/cuda/cross_entropy.hpp>
#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/backend/cuda/elements.hpp>
#include <heddle/backend/cuda/embedding.hpp>
#include <heddle/backend/cuda/fused_products.hpp>
#include <heddle/backend/cuda/norm.hpp>
#include <heddle/backend/cuda/optimizer.hpp>
#include <heddle/backend/cuda/pointwise.hpp>
#include <heddle/backend/cuda/random.hpp>
#include <heddle/backend/cuda/rotary.hpp>

namespace heddle {

/// The primitives that modules are made of, on an NVIDIA device, and the memory that they work on: `host_backend`'s
/// members, each given to the compute stream of the calling thread's `cuda::execution`. Pointers are to device memory.
/// A file that calls them is compiled by nvcc, with heddle's folders `include` and `kernels` on its include path.
struct cuda_backend : cuda::elements,
                      cuda::fused_products<cuda::blas_type>,
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
struct cuda_tfloat32_backend : cuda_backend, cuda::fused_products<cuda::tfloat32_blas_type> {
  using rounded = cuda::fused_products<cuda::tfloat32_blas_type>;
  using rounded::product;
  using rounded::product_accumulate;
  using rounded::product_biased;
  using rounded::product_scratch;
  using rounded::product_summed;
};

}  // namespace heddle
