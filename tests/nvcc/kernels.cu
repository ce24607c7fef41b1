// SPDX-License-Identifier: Apache-2.0
// Every kernel at the types and the tuning that a plan uses, for nvcc's report of registers, shared memory and spills.
#include <activation/activation.cuh>
#include <cross_entropy/cross_entropy.cuh>
#include <embedding/embedding.cuh>
#include <embedding/token_order.cuh>
#include <norm/layer_norm.cuh>
#include <norm/rms_norm.cuh>
#include <optimizer/adamw.cuh>
#include <optimizer/norm_and_check.cuh>
#include <random/dropout.cuh>
#include <rotary/rotary.cuh>
#include <support/sum_parts.cuh>

namespace heddle::kernels {

#define HEDDLE_NORMS(T)                                                                                                \
  template __global__ void layer_norm_forward<T, 256>(T const*, T const*, T const*, T, int, T*, T*, T*);               \
  template __global__ void residual_layer_norm_forward<T, 256>(T const*, T const*, T const*, T const*, T, int, T*, T*, \
                                                               T*, T*);                                                \
  template __global__ void layer_norm_backward<T, 256>(T const*, T const*, T const*, T const*, T const*, T const*,     \
                                                       long long, int, T*, T*, T*);                                    \
  template __global__ void rms_norm_forward<T, 256>(T const*, T const*, T, int, T*, T*);                               \
  template __global__ void residual_rms_norm_forward<T, 256>(T const*, T const*, T const*, T, int, T*, T*, T*);        \
  template __global__ void rms_norm_backward<T, 256>(T const*, T const*, T const*, T const*, T const*, long long, int, \
                                                     T*, T*);                                                          \
  template __global__ void column_sums<T, 256>(T const*, long long, int, T*);                                          \
  template __global__ void add_parts<T, 256>(T const*, int, int, T*);                                                  \
  template __global__ void biased_sum<T, 256>(T const*, T const*, T const*, long long, int, T*);
#define HEDDLE_ACTIVATION(T, F)                                                                          \
  template __global__ void activation_forward<T, F, 256>(T const*, long long, T*);                       \
  template __global__ void activation_backward<T, F, 256>(T const*, T const*, long long, T*);            \
  template __global__ void biased_activation_forward<T, F, 256>(T const*, T const*, long long, int, T*); \
  template __global__ void biased_activation_backward<T, F, 256>(T const*, T const*, T const*, long long, int, T*, T*);
#define HEDDLE_GATE(T, F)                                                          \
  template __global__ void gated_forward<T, F, 256>(T const*, long long, int, T*); \
  template __global__ void gated_backward<T, F, 256>(T const*, T const*, long long, int, T*);

#define HEDDLE_ALL(T)             \
  HEDDLE_NORMS(T)                 \
  HEDDLE_ACTIVATION(T, gelu_tanh) \
  HEDDLE_ACTIVATION(T, gelu_erf)  \
  HEDDLE_ACTIVATION(T, silu)      \
  HEDDLE_ACTIVATION(T, relu)      \
  HEDDLE_GATE(T, gelu_tanh)       \
  HEDDLE_GATE(T, gelu_erf)        \
  HEDDLE_GATE(T, silu)

HEDDLE_ALL(float)
HEDDLE_ALL(double)

#define HEDDLE_INSTANTIATE(T)                                                                                          \
  template __global__ void cross_entropy_max<T, 256>(T const*, int, int, T*);                                          \
  template __global__ void cross_entropy_sum<T, 256>(T const*, int, int, long long, std::int32_t const*, T const*, T*, \
                                                     T*);                                                              \
  template __global__ void cross_entropy_loss<T, 256>(long long, std::int32_t const*, std::int32_t, T const*,          \
                                                      T const*, T const*, T*, double*);                                \
  template __global__ void cross_entropy_backward<T, 256>(T const*, int, int, long long, std::int32_t const*,          \
                                                          std::int32_t, T const*, T, T*);                              \
  template __global__ void adamw<T, 256>(adamw_tensor<T> const*, tensor_chunk const*, int, adamw_factors<T> const*);   \
  template __global__ void sum_of_squares<T, 256>(listed_tensor<T> const*, tensor_chunk const*, int, double*);         \
  template __global__ void count_not_finite<T, 256>(listed_tensor<T> const*, tensor_chunk const*, int, long long*);    \
  template __global__ void dropout<T, 256>(T const*, T const*, T*, long long, const __grid_constant__ index_runs,      \
                                           random_stream, dropout_rate<T>);                                            \
  template __global__ void embedding_forward<T, 256>(std::int32_t const*, T const*, int, int, long long, T*);          \
  template __global__ void embedding_backward<T, 256>(int const*, int const*, int const*, T const*, int, T*);          \
  template __global__ void rotary<T, 64, 256>(T const*, T*, T const*, T const*, T, int, int, int);                     \
  template __global__ void rotary<T, 128, 256>(T const*, T*, T const*, T const*, T, int, int, int)

HEDDLE_INSTANTIATE(float);
HEDDLE_INSTANTIATE(double);
template __global__ void sum_parts<double, 256>(double const*, long long const*, double*);
template __global__ void sum_parts<long long, 256>(long long const*, long long const*, long long*);

}  // namespace heddle::kernels
