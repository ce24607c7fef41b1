// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <heddle/tensor/random_key.hpp>
#include <random/index_runs.cuh>
#include <support/for_each_pack.cuh>
#include <support/math.cuh>
#include <support/vector.cuh>

namespace heddle::kernels {

/// A probability p in [0, 1) as the kernel uses it: the host's limit and scale.
template <class A>
struct dropout_rate {
  std::uint32_t limit;
  bool keeps_all;  ///< p = 0, for which no limit stands
  A scale;

  HEDDLE_HOST_DEVICE static constexpr dropout_rate of(double p) {
    return {dropout_limit(p), p == 0, static_cast<A>(1.0 / (1.0 - p))};
  }
};

/// The numbers that a kernel draws from: given with the launch; or of a step that lies in device memory, where a step
/// that is replayed as a graph finds it anew. Then each thread makes them, by one more call of Philox.
struct random_source {
  random_stream given;
  random_key key;
  std::uint64_t const* step;

  random_source(step_key const& k)
      : given(k.step == nullptr ? random_stream(k.given) : random_stream()), key(k.given), step(k.step) {}
  [[nodiscard]] __device__ random_stream get() const {
    return step == nullptr ? given : random_stream(random_key{key.seed, *step, key.site});
  }
};

/// Bit j: element first + j is kept, j < count <= 32. One call of Philox for each group of four global indices that the
/// elements touch.
__device__ inline unsigned kept_elements(index_runs const& map, random_stream const& stream, std::uint32_t limit,
                                         std::uint64_t first, int count) {
  unsigned kept = 0;
  std::uint64_t group = ~std::uint64_t{0};  // no element's
  heddle::detail::philox_block words{};
  global_position at = position_of(map, first);
  for (int j = 0; j < count; ++j) {
    if (at.real) {
      if (at.global / 4 != group) {
        group = at.global / 4;
        words = stream.block(group);
      }
      auto const lane = static_cast<unsigned>(at.global % 4);
      // Chosen rather than indexed, which would put the words into memory.
      std::uint32_t const low = lane == 0 ? words.word[0] : words.word[1];
      std::uint32_t const high = lane == 2 ? words.word[2] : words.word[3];
      if ((lane < 2 ? low : high) > limit) kept |= 1U << j;
    }
    if (j + 1 < count) at = next_position(map, at, first + static_cast<unsigned>(j));
  }
  return kept;
}

/// y = x / (1 - p) where the element's word of `stream` is above the limit, else 0, plus `base` unless that is null
/// (Srivastava et al. 2014, scaled at training time): bit for bit `host::random::dropout` (but which NaN it is),
/// whatever the grid, since the mask depends on the key and on the global index of each of the n elements alone
/// (`map`). Padding gets base, or 0; with p = 0, for which no mask is drawn, x and base as anywhere. y may be x or
/// base. Grid: `pack_grid`. Backward is this kernel on dy with the same stream and no base, since the mask is its own
/// adjoint: nothing is kept. The stream's key has the step, so in a captured graph it has to lie in device memory: as
/// an argument it would draw one mask for all steps.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    dropout(T const* x, T const* base, T* y, long long n, const __grid_constant__ index_runs map,
            const __grid_constant__ random_source stream, dropout_rate<accumulator_t<T>> rate) {
  using A = accumulator_t<T>;
  random_stream const numbers = stream.get();
  constexpr int width = pack_width<T>;
  for_each_pack<T, Threads>(n, aligned_for_packs(x, base, y), [&](long long i, int count, bool whole) {
    unsigned const kept =
        rate.keeps_all ? ~0U : kept_elements(map, numbers, rate.limit, static_cast<std::uint64_t>(i), count);
    pack<T> value = load_pack<T>(x + i, count, whole);
    // Selected, not multiplied by 0: a dropped infinity is 0 as well, forward and backward.
    for (int j = 0; j < width; ++j) value[j] = (kept >> j & 1U) != 0 ? math::product(value[j], rate.scale) : A(0);
    if (base != nullptr) {
      pack<T> const under = load_pack<T>(base + i, count, whole);
      for (int j = 0; j < width; ++j) value[j] = under[j] + value[j];
    }
    store_pack(y + i, value, count, whole);
  });
}

}  // namespace heddle::kernels
