// SPDX-License-Identifier: Apache-2.0
// Every kernel at the types and the tuning that a plan uses, for nvcc's report of registers, shared memory and spills.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <activation/activation.cuh>
#include <attention/tuning.cuh>
#include <cast/cast.cuh>
#include <communication/copy_blocks.cuh>
#include <communication/join_ranks.cuh>
#include <cross_entropy/cross_entropy.cuh>
#include <embedding/embedding.cuh>
#include <norm/norm.cuh>
#include <optimizer/adamw.cuh>
#include <optimizer/norm_and_check.cuh>
#include <optimizer/step_numbers.cuh>
#include <pointwise/pointwise.cuh>
#include <random/dropout.cuh>
#include <random/fill.cuh>
#include <redistribution/blocks.cuh>
#include <redistribution/shares.cuh>
#include <rotary/rotary.cuh>
#include <rotary/table.cuh>
#include <support/sum_parts.cuh>

namespace heddle::kernels {

/// What has its address taken is compiled.
template <class... Kernels>
bool compiled(Kernels*... kernel) {
  return ((kernel != nullptr) && ...);
}

template <class T, class Activation>
bool activations() {
  return compiled(activation_forward<T, Activation, 256>, activation_backward<T, Activation, 256>,
                  biased_activation_forward<T, Activation, 256>, biased_activation_backward<T, Activation, 256>);
}
template <class T, class Activation>
bool gates() {
  return compiled(gated_forward<T, Activation, 256>, gated_backward<T, Activation, 256>);
}

/// Attention of one head size, as it is tuned for the architecture that this is compiled for, which check_kernels.py
/// names: `__CUDA_ARCH__` must not choose what is instantiated.
inline constexpr int architecture = HEDDLE_ARCHITECTURE;
template <class T, int HeadDim>
bool attention() {
  constexpr bool cores = attention_on_tensor_cores<T>(architecture);
  constexpr attention_tile forward = tuning<attention_forward_kernel<T, HeadDim, cores>>::at(architecture);
  constexpr attention_tile by_query = tuning<attention_query_gradient_kernel<T, HeadDim, cores>>::at(architecture);
  constexpr attention_tile by_key = tuning<attention_key_gradient_kernel<T, HeadDim, cores>>::at(architecture);
  if constexpr (cores)
    return compiled(attention_inner<T, HeadDim, 256>,
                    attention_forward_mma<T, HeadDim, forward.rows, forward.columns, forward.threads>,
                    attention_query_gradient_mma<T, HeadDim, by_query.rows, by_query.columns, by_query.threads>,
                    attention_key_gradient_mma<T, HeadDim, by_key.rows, by_key.columns, by_key.threads>);
  else
    return compiled(attention_inner<T, HeadDim, 256>,
                    attention_forward<T, HeadDim, forward.rows, forward.columns, forward.threads>,
                    attention_query_gradient<T, HeadDim, by_query.rows, by_query.columns, by_query.threads>,
                    attention_key_gradient<T, HeadDim, by_key.rows, by_key.columns, by_key.threads>);
}

/// What depends on the type of the activations.
template <class T>
bool of_type() {
  return compiled(norm_forward<T, true, 256>, norm_forward<T, false, 256>, norm_backward<T, true, 256>,
                  norm_backward<T, false, 256>, column_sums<T, 256>, biased_sum<T, 256>, cross_entropy_max<T, 256>,
                  cross_entropy_sum<T, 256>, cross_entropy_backward<T, 256>, dropout<T, 256>, embedding_forward<T, 256>,
                  rotary<T, 64, 256>, rotary<T, 128, 256>, blocks_to_front<T, 256>, blocks_from_front<T, 256>,
                  kernels::pack_shares<T, T, 256>, block_in_place<T, 256>, add<T, 256>, scale<T, 256>, fill<T, 256>,
                  fill_real<T, 256>, fill_normal<T, 256>, fill_uniform<T, 256>, add_to_total<T, double, 1>) &&
         attention<T, 64>() && attention<T, 128>() && attention<T, 256>() && activations<T, gelu_tanh>() &&
         activations<T, gelu_erf>() && activations<T, silu>() && activations<T, relu>() && gates<T, gelu_tanh>() &&
         gates<T, gelu_erf>() && gates<T, silu>();
}
/// What gradients are summed in.
template <class Gradient>
bool of_gradient() {
  return compiled(add_parts<Gradient, 256>, sum_of_squares<Gradient, 256>, sum_of_squares_of_array<Gradient, 256>,
                  count_not_finite<Gradient, 256>);
}
template <class T, class Gradient>
bool of_both() {
  return compiled(embedding_backward<T, Gradient, 256>, adamw<T, Gradient, 256>, adamw_of_tensor<T, Gradient, 256>,
                  kernels::unpack_shares<T, Gradient, false, 256>, kernels::unpack_shares<T, Gradient, true, 256>);
}

/// What ranks that share a device exchange.
template <class T, class A>
bool joins() {
  return compiled(join_ranks<T, A, comm::reduction::sum, 256>, join_ranks<T, A, comm::reduction::max, 256>);
}
bool communication() {
  return joins<float, float>() && joins<double, double>() && joins<__nv_bfloat16, float>() && joins<__half, float>() &&
         joins<int, long long>() && compiled(copy_blocks<256>);
}

bool all() {
  return communication() && of_type<float>() && of_type<double>() && of_type<__nv_bfloat16>() && of_type<__half>() &&
         of_gradient<float>() && of_gradient<double>() && of_gradient<__nv_bfloat16>() && of_gradient<__half>() &&
         of_both<float, float>() && of_both<double, double>() && of_both<__nv_bfloat16, float>() &&
         of_both<__nv_bfloat16, __nv_bfloat16>() && of_both<__half, float>() && of_both<__half, __half>() &&
         compiled(cross_entropy_loss<float, 256>, cross_entropy_loss<double, 256>, prepare_adamw<float, 256>,
                  prepare_adamw<double, 256>, sum_parts<double, double, 256>, sum_parts<double, float, 256>,
                  sum_parts<long long, long long, 256>, sum_up<double, double, true, 256>,
                  sum_up<double, float, false, 256>, count_up<256>, rotary_table<float, 64, 256>,
                  rotary_table<double, 64, 256>, seed_step<1>, decide_step<1>, cast<double, float, 256>,
                  cast<float, __nv_bfloat16, 256>, cast<float, __half, 256>, cast<__nv_bfloat16, float, 256>,
                  cast<__half, float, 256>, add_cast<float, float, 256>, add_cast<double, double, 256>,
                  add_cast<__nv_bfloat16, __nv_bfloat16, 256>, add_cast<__half, __half, 256>,
                  add_cast<__nv_bfloat16, float, 256>, add_cast<__half, float, 256>,
                  kernels::pack_shares<__nv_bfloat16, float, 256>, kernels::pack_shares<float, __nv_bfloat16, 256>,
                  kernels::pack_shares<__half, float, 256>, kernels::pack_shares<float, __half, 256>,
                  kernels::unpack_shares<float, __nv_bfloat16, false, 256>,
                  kernels::unpack_shares<float, __nv_bfloat16, true, 256>,
                  kernels::unpack_shares<float, __half, false, 256>, kernels::unpack_shares<float, __half, true, 256>);
}

}  // namespace heddle::kernels
