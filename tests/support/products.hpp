// SPDX-License-Identifier: Apache-2.0
#pragma once
// Products of the host backend, which all programs that train have: products.cpp holds them once, optimized in full, so
// that programs that are not optimized neither compile them nor wait for them.
#include <heddle/backend/host/product.hpp>

#ifndef HEDDLE_PRODUCTS
#define HEDDLE_PRODUCTS extern template
#endif

namespace heddle::host::detail {
#define HEDDLE_PRODUCTS_OF(A, B)                                                                                    \
  HEDDLE_PRODUCTS void product_in_parts<float, A, B>(std::size_t, std::size_t, std::size_t, float const*,           \
                                                     float const*, float*, bool);                                   \
  HEDDLE_PRODUCTS void product_in_parts<double, A, B>(std::size_t, std::size_t, std::size_t, double const*,         \
                                                      double const*, double*, bool);                                \
  HEDDLE_PRODUCTS void widened_product<tfloat32_operand, A, B>(std::size_t, std::size_t, std::size_t, float const*, \
                                                               float const*, float*, bool);                         \
  HEDDLE_PRODUCTS void widened_product<widened_operand<bfloat16>, A, B>(                                            \
      std::size_t, std::size_t, std::size_t, bfloat16 const*, bfloat16 const*, bfloat16*, bool);                    \
  HEDDLE_PRODUCTS void widened_product<widened_operand<float16>, A, B>(                                             \
      std::size_t, std::size_t, std::size_t, float16 const*, float16 const*, float16*, bool);
HEDDLE_PRODUCTS_OF(false, false)
HEDDLE_PRODUCTS_OF(false, true)
HEDDLE_PRODUCTS_OF(true, false)
#undef HEDDLE_PRODUCTS_OF
}  // namespace heddle::host::detail
