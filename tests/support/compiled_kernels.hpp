// SPDX-License-Identifier: Apache-2.0
#pragma once
// The host backend's kernels, which all programs that train have: compiled_kernels.cpp holds them once, optimized in
// full, so that programs that are not optimized neither compile them nor wait for them.
#include <heddle/backend/host.hpp>

#ifndef HEDDLE_COMPILED_KERNELS
#define HEDDLE_COMPILED_KERNELS extern template
#endif

namespace heddle::host {

#define HEDDLE_PRODUCTS_OF(A, B)                                                                                    \
  HEDDLE_COMPILED_KERNELS void product_in_parts<float, A, B>(std::size_t, std::size_t, std::size_t, float const*,   \
                                                             float const*, float*, bool);                           \
  HEDDLE_COMPILED_KERNELS void product_in_parts<double, A, B>(std::size_t, std::size_t, std::size_t, double const*, \
                                                              double const*, double*, bool);                        \
  HEDDLE_COMPILED_KERNELS void widened_product<tfloat32_operand, A, B>(std::size_t, std::size_t, std::size_t,       \
                                                                       float const*, float const*, float*, bool);   \
  HEDDLE_COMPILED_KERNELS void widened_product<widened_operand<bfloat16>, A, B>(                                    \
      std::size_t, std::size_t, std::size_t, bfloat16 const*, bfloat16 const*, bfloat16*, bool);                    \
  HEDDLE_COMPILED_KERNELS void widened_product<widened_operand<float16>, A, B>(                                     \
      std::size_t, std::size_t, std::size_t, float16 const*, float16 const*, float16*, bool);
#define HEDDLE_ACTIVATION(T, Kind)                                                              \
  HEDDLE_COMPILED_KERNELS void activation<T, activation_kind::Kind>(std::size_t, T const*, T*); \
  HEDDLE_COMPILED_KERNELS void activation_backward<T, activation_kind::Kind>(std::size_t, T const*, T const*, T*);
#define HEDDLE_KERNELS_OF(T, A)                                                                                        \
  HEDDLE_COMPILED_KERNELS void layer_norm<T>(std::size_t, std::size_t, T const*, T const*, T const*, A, T*, A*, A*);   \
  HEDDLE_COMPILED_KERNELS void layer_norm_backward<T>(std::size_t, std::size_t, T const*, T const*, A const*,          \
                                                      A const*, T const*, T const*, T*, T*, T*);                       \
  HEDDLE_COMPILED_KERNELS void rms_norm<T>(std::size_t, std::size_t, T const*, T const*, A, T*, A*);                   \
  HEDDLE_COMPILED_KERNELS void rms_norm_backward<T>(std::size_t, std::size_t, T const*, T const*, A const*, T const*,  \
                                                    T const*, T*, T*);                                                 \
  HEDDLE_COMPILED_KERNELS void add<T>(std::size_t, T const*, T const*, T*);                                            \
  HEDDLE_COMPILED_KERNELS void add_to_dealt<T>(std::size_t, T const*, T*);                                             \
  HEDDLE_COMPILED_KERNELS void scale<T>(std::size_t, A, T*);                                                           \
  HEDDLE_COMPILED_KERNELS void copy<T>(std::size_t, T const*, T*);                                                     \
  HEDDLE_COMPILED_KERNELS void biased_sum<T>(std::size_t, std::size_t, T const*, T*);                                  \
  HEDDLE_COMPILED_KERNELS void biased_sum<T, T>(std::size_t, std::size_t, T const*, T*, T const*);                     \
  HEDDLE_COMPILED_KERNELS void biased_sum<T, T, T>(std::size_t, std::size_t, T const*, T*, T const*, T const*);        \
  HEDDLE_COMPILED_KERNELS void bias_gradient<T>(std::size_t, std::size_t, T const*, T*);                               \
  HEDDLE_ACTIVATION(T, gelu_tanh)                                                                                      \
  HEDDLE_ACTIVATION(T, gelu_erf)                                                                                       \
  HEDDLE_ACTIVATION(T, silu)                                                                                           \
  HEDDLE_COMPILED_KERNELS void gated<T, activation_kind::silu>(std::size_t, std::size_t, T const*, T*);                \
  HEDDLE_COMPILED_KERNELS void gated_backward<T, activation_kind::silu>(std::size_t, std::size_t, T const*, T const*,  \
                                                                        T*);                                           \
  HEDDLE_COMPILED_KERNELS void cross_entropy_max<T>(std::size_t, std::size_t, T const*, std::size_t, A*);              \
  HEDDLE_COMPILED_KERNELS void cross_entropy_sum<T>(std::size_t, std::size_t, T const*, std::size_t, std::int64_t,     \
                                                    std::int32_t const*, A const*, A*, A*);                            \
  HEDDLE_COMPILED_KERNELS void cross_entropy_backward<T>(std::size_t, std::size_t, T const*, std::size_t,              \
                                                         std::int64_t, std::int32_t const*, std::int32_t, A const*, A, \
                                                         T*);                                                          \
  HEDDLE_COMPILED_KERNELS void embedding<T>(std::size_t, std::size_t, std::size_t, std::int32_t const*, T const*,      \
                                            std::int64_t, T*);                                                         \
  HEDDLE_COMPILED_KERNELS void embedding_backward<T>(std::size_t, std::size_t, std::size_t, std::int32_t const*,       \
                                                     T const*, std::int64_t, T*);                                      \
  HEDDLE_COMPILED_KERNELS struct attention_head<T, 8>;                                                                 \
  HEDDLE_COMPILED_KERNELS struct attention_head<T, 16>;                                                                \
  HEDDLE_COMPILED_KERNELS struct attention_head<T, 32>;
namespace detail {
HEDDLE_PRODUCTS_OF(false, false)
HEDDLE_PRODUCTS_OF(false, true)
HEDDLE_PRODUCTS_OF(true, false)
HEDDLE_KERNELS_OF(float, float)
HEDDLE_KERNELS_OF(double, double)
HEDDLE_KERNELS_OF(bfloat16, float)
HEDDLE_KERNELS_OF(float16, float)
}  // namespace detail
#undef HEDDLE_PRODUCTS_OF
#undef HEDDLE_ACTIVATION
#undef HEDDLE_KERNELS_OF

#define HEDDLE_RANDOM_OF(T)                                                                                      \
  HEDDLE_COMPILED_KERNELS void random::fill_normal<T>(T*, index_map const&, random_key const&, double, double);  \
  HEDDLE_COMPILED_KERNELS void random::fill_uniform<T>(T*, index_map const&, random_key const&, double, double); \
  HEDDLE_COMPILED_KERNELS void random::dropout<T>(T const*, T const*, T*, index_map const&, random_key const&,   \
                                                  double);                                                       \
  HEDDLE_COMPILED_KERNELS double optimizers::sum_of_squares<T>(T const*, std::size_t);
#define HEDDLE_ADAMW_OF(T, G) \
  HEDDLE_COMPILED_KERNELS void optimizers::adamw<T, G>(T*, G const*, T*, T*, std::size_t, adamw_coefficients const&);
HEDDLE_RANDOM_OF(float)
HEDDLE_RANDOM_OF(double)
HEDDLE_RANDOM_OF(bfloat16)
HEDDLE_RANDOM_OF(float16)
HEDDLE_ADAMW_OF(float, float)
HEDDLE_ADAMW_OF(double, double)
HEDDLE_ADAMW_OF(float, bfloat16)
HEDDLE_ADAMW_OF(float, float16)
#undef HEDDLE_RANDOM_OF
#undef HEDDLE_ADAMW_OF

}  // namespace heddle::host
