// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/tensor/adamw_factors.hpp>
#include <optimizer/tensor_list.cuh>
#include <support/math.cuh>
#include <support/vector.cuh>

namespace heddle::kernels {

namespace detail {
/// base^exponent by squaring, as `heddle::adamw` has it: with its bits.
__device__ inline double power(double base, long long exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1, base = math::product(base, base))
    if ((exponent & 1) != 0) result = math::product(result, base);
  return result;
}
}  // namespace detail

/// What a step decides before `adamw`, on the device, so that a captured graph does it anew each time it is replayed:
/// factors[count] of coefficients[count], whose bias corrections are those of update `*updates` + 1 and whose gradient
/// scale is multiplied by `*gradient_scale` (a clipping factor, the inverse of a loss scale) unless that is null. Then
/// counts the update. Where `skip` is not null and `*skip` is not 0, as where `sum_parts` has counted elements that are
/// not finite, the step is skipped: nothing is written, and `adamw` with the same `skip` writes nothing. One block. The
/// coefficients' own bias corrections are not used.
template <class A, int Threads>
__global__ void __launch_bounds__(Threads)
    prepare_adamw(adamw_coefficients const* coefficients, int count, double const* gradient_scale,
                  long long const* skip, long long* updates, adamw_factors<A>* factors) {
  if (skip != nullptr && *skip != 0) return;
  long long const update = *updates + 1;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Threads) {
    adamw_coefficients c = coefficients[i];
    c.bias_correction1 = 1 - detail::power(c.beta1, update);
    c.bias_correction2 = 1 - detail::power(c.beta2, update);
    if (gradient_scale != nullptr) c.gradient_scale *= *gradient_scale;
    factors[i] = adamw_factors<A>::of(c);
  }
  __syncthreads();  // all have read the count
  if (threadIdx.x == 0) *updates = update;
}

/// A parameter with its state: weights w and moments m, v in the accumulator's type, since an update is below half a
/// step of a narrow one (known-faults BF-1); gradient g, in T or as a sum of many in the accumulator's type (BF-3).
/// `rounded`, if not null, gets w in T. `factors` says which of the launch's factors are its own: parameters differ in
/// decay, and may differ in their step.
template <class T, class Gradient>
struct adamw_tensor {
  accumulator_t<T>* w;
  Gradient const* g;
  accumulator_t<T>* m;
  accumulator_t<T>* v;
  T* rounded;
  long long size;
  int factors;
};

namespace detail {
/// One AdamW step of elements `begin`, begin + stride, … of a tensor, in packs.
template <class T, class Gradient>
__device__ void adamw_elements(adamw_tensor<T, Gradient> const& all, adamw_factors<accumulator_t<T>> const& f,
                               long long begin, long long end, long long stride, bool aligned) {
  using A = accumulator_t<T>;
  using math::product;
  constexpr int width = pack_width<T>;
  for (long long i = begin; i < end; i += stride) {
    int const count = end - i < width ? static_cast<int>(end - i) : width;
    bool const whole = aligned && count == width;
    pack<T> const raw = load_pack<T>(all.g + i, count, whole);
    pack<T> weight = load_pack<T>(all.w + i, count, whole), first = load_pack<T>(all.m + i, count, whole),
            second = load_pack<T>(all.v + i, count, whole);
    for (int j = 0; j < width; ++j) {
      A const gradient = product(raw[j], f.gradient_scale);
      first[j] = product(f.beta1, first[j]) + product(f.rest1, gradient);
      second[j] = product(f.beta2, second[j]) + product(product(f.rest2, gradient), gradient);
      A const divisor = product(math::sqrt(second[j]), f.root) + f.epsilon;
      weight[j] = product(f.keep, weight[j]) - product(f.step, first[j]) / divisor;
    }
    store_pack(all.m + i, first, count, whole);
    store_pack(all.v + i, second, count, whole);
    store_pack(all.w + i, weight, count, whole);
    if (all.rounded != nullptr) store_pack(all.rounded + i, weight, count, whole);
  }
}
}  // namespace detail

/// One AdamW step of all tensors of a list, block b doing chunk b, in one pass:
///   g' = gradient_scale·g;  m = β1·m + (1-β1)·g';  v = β2·v + (1-β2)·g'²
///   w = w - lr·weight_decay·w - lr·m̂/(√v̂ + ε),  m̂ = m/bias_correction1, v̂ = v/bias_correction2
/// Loshchilov and Hutter, arXiv 1711.05101, algorithm 2, in the order of `host::optimizers::adamw`. Each operation is
/// rounded by itself, so an element's bits depend neither on its place nor on how parameters are sharded.
/// Factors lie in device memory, where `prepare_adamw` writes them: no copy to the host is waited for. Where `skip` is
/// not null and `*skip` is not 0, nothing is written: weights, moments and copies keep their bits.
template <class T, class Gradient, int Threads>
__global__ void __launch_bounds__(Threads)
    adamw(adamw_tensor<T, Gradient> const* tensors, tensor_chunk const* chunks, int length,
          adamw_factors<accumulator_t<T>> const* factors, long long const* skip) {
  if (skip != nullptr && *skip != 0) return;
  tensor_chunk const chunk = chunks[blockIdx.x];
  adamw_tensor<T, Gradient> const all = tensors[chunk.tensor];
  adamw_factors<accumulator_t<T>> const f = factors[all.factors];
  bool const aligned =
      aligned_for_packs(all.w + chunk.begin, all.g + chunk.begin, all.m + chunk.begin, all.v + chunk.begin,
                        all.rounded == nullptr ? nullptr : all.rounded + chunk.begin);
  detail::adamw_elements(all, f, chunk.begin + static_cast<long long>(threadIdx.x) * pack_width<T>,
                         chunk.begin + chunk_size(chunk, length, all.size), Threads * pack_width<T>, aligned);
}

/// The same step of one tensor, whose factors are the launch's: where no graph is captured. Grid: `pack_grid`.
template <class T, class Gradient, int Threads>
__global__ void __launch_bounds__(Threads)
    adamw_of_tensor(adamw_tensor<T, Gradient> all, adamw_factors<accumulator_t<T>> factors) {
  constexpr int width = pack_width<T>;
  detail::adamw_elements(all, factors, (static_cast<long long>(blockIdx.x) * Threads + threadIdx.x) * width, all.size,
                         static_cast<long long>(gridDim.x) * Threads * width,
                         aligned_for_packs(all.w, all.g, all.m, all.v, all.rounded));
}

}  // namespace heddle::kernels
