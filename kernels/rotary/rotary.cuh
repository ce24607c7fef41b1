// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/accumulator.cuh>
#include <support/math.cuh>

namespace heddle::kernels {

/// Rotary positions (Su et al., arXiv 2104.09864, section 3.2.2) in the half-split pairing of Llama: elements i and
/// i + HeadDim/2 of a head turn by the angle whose cosine and sine are element i of row s of `cosine` and `sine`
/// [sequence, HeadDim/2], which `host::rotary_positions::rotary_table` writes from the global positions:
///   y_i = x_i·cos - x_{i+half}·sin,   y_{i+half} = x_{i+half}·cos + x_i·sin
/// Turns queries and keys (slots 0..group) of qkv [batch, sequence, kv_heads, group + 2, HeadDim] to `out`, which may
/// be qkv itself; values stay as they are. One block for each of the batch · sequence rows. Backward is the same on
/// dqkv with sign = -1, since a rotation's inverse is its transpose: nothing is kept. Each operation is rounded by
/// itself, so that a row has the same bits wherever it is computed.
template <class T, int HeadDim, int Threads>
__global__ void __launch_bounds__(Threads)
    rotary(T const* qkv, T* out, accumulator_t<T> const* cosine, accumulator_t<T> const* sine, accumulator_t<T> sign,
           int sequence, int kv_heads, int group) {
  static_assert(HeadDim > 0 && HeadDim % 2 == 0, "rotary: 'HeadDim' must be even, its halves turn against each other");
  using A = accumulator_t<T>;
  using math::product;
  constexpr int half = HeadDim / 2;
  long long const row = blockIdx.x;
  cosine += row % sequence * half;
  sine += row % sequence * half;
  T const* const x = qkv + row * kv_heads * (group + 2) * HeadDim;
  T* const y = out + row * kv_heads * (group + 2) * HeadDim;
  int const slots = group + 2;
  for (int p = static_cast<int>(threadIdx.x); p < kv_heads * slots * half; p += Threads) {
    int const i = p % half, slot = p / half, at = slot * HeadDim + i;
    T const a = x[at], b = x[at + half];
    if (slot % slots == group + 1) {  // values
      if (qkv != out) {
        y[at] = a;
        y[at + half] = b;
      }
    } else {
      A const c = cosine[i], s = product(sine[i], sign);
      y[at] = T(product(A(a), c) - product(A(b), s));
      y[at + half] = T(product(A(b), c) + product(A(a), s));
    }
  }
}

}  // namespace heddle::kernels
