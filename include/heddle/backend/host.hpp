// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/attention.hpp>
#include <heddle/backend/host/cross_entropy.hpp>
#include <heddle/backend/host/elements.hpp>
#include <heddle/backend/host/embedding.hpp>
#include <heddle/backend/host/norm.hpp>
#include <heddle/backend/host/optimizer.hpp>
#include <heddle/backend/host/pointwise.hpp>
#include <heddle/backend/host/product.hpp>
#include <heddle/backend/host/random.hpp>
#include <heddle/backend/host/rotary.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/no_scratch.hpp>

namespace heddle {

/// The primitives that modules are made of, on the host, and the memory that they work on: dealt to the threads of the
/// rank (`host::thread_team`), products by Eigen. A module calls them as `Backend::template name<sizes…>(pointers…)`;
/// each family can be used alone, on raw pointers.
struct host_backend : host::elements,
                      host::products,
                      host::pointwise,
                      host::norms,
                      host::embeddings,
                      host::cross_entropy,
                      host::optimizers,
                      host::attentions,
                      host::rotary_positions,
                      host::random,
                      no_scratch {
  using memory = host_memory;
  using tfloat32_products = struct host_tfloat32_backend;
};

/// What `tf32` runs on: the operands of matrix products are rounded. Attention is as in fp32, for which a device has no
/// tensor cores.
struct host_tfloat32_backend : host_backend {
  using rounded = host::tfloat32_products;
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product(float const* a, float const* b, float* c, float* = nullptr) {
    rounded::product<M, N, K, TransposeA, TransposeB>(a, b, c);
  }
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB>
  static void product_accumulate(float const* a, float const* b, float* c, float* = nullptr) {
    rounded::product_accumulate<M, N, K, TransposeA, TransposeB>(a, b, c);
  }
};

}  // namespace heddle
