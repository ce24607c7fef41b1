// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <random/index_runs.cuh>
#include <support/for_each_pack.cuh>

// Element by element. An output may be an input. No size is 0.
namespace heddle::kernels {

/// out[n] = x + y, each sum rounded to T. Grid: `pack_grid`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) add(T const* x, T const* y, long long n, T* out) {
  for_each_pack<T, Threads>(n, aligned_for_packs(x, y, out), [=](long long i, int count, bool whole) {
    pack<T> sum = load_pack<T>(x + i, count, whole);
    pack<T> const term = load_pack<T>(y + i, count, whole);
    for (int j = 0; j < pack_width<T>; ++j) sum[j] += term[j];
    store_pack<T>(out + i, sum, count, whole);
  });
}

/// x[n] *= factor. Grid: `pack_grid`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) scale(accumulator_t<T> factor, T* x, long long n) {
  for_each_pack<T, Threads>(n, aligned_for_packs(x), [=](long long i, int count, bool whole) {
    pack<T> value = load_pack<T>(x + i, count, whole);
    for (int j = 0; j < pack_width<T>; ++j) value[j] *= factor;
    store_pack<T>(x + i, value, count, whole);
  });
}

/// x[n] = value. Grid: `pack_grid`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) fill(accumulator_t<T> value, T* x, long long n) {
  pack<T> all;
  for (int j = 0; j < pack_width<T>; ++j) all[j] = value;
  for_each_pack<T, Threads>(n, aligned_for_packs(x),
                            [=](long long i, int count, bool whole) { store_pack<T>(x + i, all, count, whole); });
}

/// x = value in those of the n elements of `map` that are real; padding stays. Grid: `pack_grid`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads)
    fill_real(accumulator_t<T> value, T* x, long long n, const __grid_constant__ index_runs map) {
  for_each_pack<T, Threads>(n, false, [&](long long i, int count, bool) {
    global_position at = position_of(map, static_cast<std::uint64_t>(i));
    for (int j = 0; j < count; ++j) {
      if (at.real) x[i + j] = T(value);
      if (j + 1 < count) at = next_position(map, at, static_cast<std::uint64_t>(i) + static_cast<unsigned>(j));
    }
  });
}

/// *total += *x, which need not be of the total's type. One thread.
template <class T, class Total, int Threads>
__global__ void __launch_bounds__(Threads) add_to_total(T const* x, Total* total) {
  static_assert(Threads == 1);
  *total += static_cast<Total>(static_cast<accumulator_t<T>>(*x));
}

}  // namespace heddle::kernels
