// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/math.cuh>
#include <support/vector.cuh>

namespace heddle::kernels {

/// Rotary positions (Su et al., arXiv 2104.09864, section 3.2.2) in the half-split pairing of Llama: elements i and
/// i + HeadDim/2 of a head turn by the angle whose cosine and sine are element i of row s of `cosine` and `sine`
/// [sequence, HeadDim/2], which `host::rotary_positions::rotary_table` writes from the global positions:
///   y_i = x_i·cos - x_{i+half}·sin,   y_{i+half} = x_{i+half}·cos + x_i·sin
/// Turns queries and keys (slots 0..group) of qkv [batch, sequence, kv_heads, group + 2, HeadDim] to `out`, which may
/// be qkv itself; values stay as they are. Grid: `row_grid` of the batch · sequence rows. Backward is the same on
/// dqkv with sign = -1, since a rotation's inverse is its transpose: nothing is kept. Each operation is rounded by
/// itself, so that a row has the same bits wherever it is computed. A thread has a pack of the first half of a head and
/// that of the second half which it turns with.
template <class T, int HeadDim, int Threads>
__global__ void __launch_bounds__(Threads)
    rotary(T const* qkv, T* out, accumulator_t<T> const* cosine, accumulator_t<T> const* sine, accumulator_t<T> sign,
           int sequence, int kv_heads, int group) {
  static_assert(HeadDim > 0 && HeadDim % 2 == 0, "rotary: 'HeadDim' must be even, its halves turn against each other");
  using A = accumulator_t<T>;
  using math::product;
  constexpr int half = HeadDim / 2, step = pack_width<T>, packs = (half + step - 1) / step;
  long long const row = blockIdx.x;
  cosine += row % sequence * half;
  sine += row % sequence * half;
  int const slots = group + 2;
  T const* const x = qkv + row * kv_heads * slots * HeadDim;
  T* const y = out + row * kv_heads * slots * HeadDim;
  bool const whole = whole_packs<T>(half, x, y, cosine, sine);
  for (int p = static_cast<int>(threadIdx.x); p < kv_heads * slots * packs; p += Threads) {
    int const i = p % packs * step, slot = p / packs, at = slot * HeadDim + i, count = half - i;
    bool const value = slot % slots == group + 1;
    if (value && qkv == out) continue;
    pack<T> a = load_pack<T>(x + at, count, whole), b = load_pack<T>(x + at + half, count, whole);
    if (!value) {
      pack<T> const c = load_pack<T>(cosine + i, count, whole), s = load_pack<T>(sine + i, count, whole);
      for (int j = 0; j < step; ++j) {
        A const turn = product(s[j], sign), first = a[j];
        a[j] = product(first, c[j]) - product(b[j], turn);
        b[j] = product(b[j], c[j]) + product(first, turn);
      }
    }
    store_pack(y + at, a, count, whole);
    store_pack(y + at + half, b, count, whole);
  }
}

}  // namespace heddle::kernels
