// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/execution.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <support/geometry.cuh>

/// How the backend's primitives launch kernels: on the calling thread's compute stream, with blocks of one size.
namespace heddle::cuda::detail {

inline constexpr int threads = 256;
/// Of kernels whose threads take packs by turns: some blocks for each multiprocessor of the largest device. Results do
/// not depend on it.
inline constexpr unsigned most_blocks = 2048;

constexpr long long signed_of(std::size_t n) { return static_cast<long long>(n); }
constexpr int int_of(std::size_t n) { return static_cast<int>(n); }

template <auto Kernel, int Threads = threads, class... Arguments>
void run(dim3 grid, Arguments const&... arguments) {
  launch<Kernel>({.grid = grid, .block = dim3(Threads)}, execution::current().compute(), arguments...);
}
/// A kernel with `pack_grid` over n elements of T.
template <auto Kernel, class T, class... Arguments>
void run_packs(std::size_t n, Arguments const&... arguments) {
  if (n != 0) run<Kernel>(kernels::pack_grid<T, threads>(signed_of(n), most_blocks), arguments...);
}

}  // namespace heddle::cuda::detail
