// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>
#include <heddle/tensor/random_key.hpp>
#include <random/index_runs.cuh>
#include <support/for_each_pack.cuh>

// Random numbers of one key by the global index of each of the n elements of `map`: bit for bit what the host's
// primitives write, whatever the grid. Padding gets 0. Values in a narrower type are those in double, rounded.
// Grid: `pack_grid`.
namespace heddle::kernels {

namespace detail {
/// The stream's word of one element. Chosen from its group's rather than indexed, which would put them into memory.
__device__ inline std::uint32_t word_of(random_stream const& stream, std::uint64_t index, std::uint32_t draw) {
  heddle::detail::philox_block const words = stream.block(index / 4, draw);
  auto const lane = static_cast<unsigned>(index % 4);
  std::uint32_t const low = lane == 0 ? words.word[0] : words.word[1];
  std::uint32_t const high = lane == 2 ? words.word[2] : words.word[3];
  return lane < 2 ? low : high;
}
/// x[i] = value(global index) of each element.
template <class T, int Threads, class Value>
__device__ void fill_drawn(T* x, long long n, index_runs const& map, Value const& value) {
  for_each_pack<T, Threads>(n, false, [&](long long i, int count, bool) {
    auto const first = static_cast<std::uint64_t>(i);
    global_position at = position_of(map, first);
    for (int j = 0; j < count; ++j) {
      x[i + j] = at.real ? T(static_cast<accumulator_t<T>>(value(at.global))) : T(0.0F);
      if (j + 1 < count) at = next_position(map, at, first + static_cast<unsigned>(j));
    }
  });
}
}  // namespace detail

/// x = mean + stddev · normal (`heddle::normal`).
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) fill_normal(T* x, long long n, const __grid_constant__ index_runs map,
                                                       random_stream stream, double mean, double stddev) {
  detail::fill_drawn<T, Threads>(x, n, map, [=](std::uint64_t i) {
    return std::fma(stddev, heddle::normal(detail::word_of(stream, i, 0), detail::word_of(stream, i, 1)), mean);
  });
}

/// x = low + width · uniform.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) fill_uniform(T* x, long long n, const __grid_constant__ index_runs map,
                                                        random_stream stream, double low, double width) {
  detail::fill_drawn<T, Threads>(x, n, map, [=](std::uint64_t i) {
    return std::fma(width, heddle::uniform<double>(detail::word_of(stream, i, 0)), low);
  });
}

}  // namespace heddle::kernels
