// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/cuda/attention.hpp>
#include <heddle/backend/cuda/cross_entropy.hpp>
#include <heddle/backend/cuda/device_memory.hpp>
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
struct cuda_backend : cuda::products,
                      cuda::pointwise,
                      cuda::norms,
                      cuda::embeddings,
                      cuda::cross_entropy,
                      cuda::optimizers,
                      cuda::attentions,
                      cuda::rotary_positions,
                      cuda::random {
  using memory = cuda::device_memory;
};

}  // namespace heddle
