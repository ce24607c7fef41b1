// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/execution.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <support/geometry.cuh>
#include <support/sum_parts.cuh>

/// How the backend's primitives launch kernels: as the next work of the calling thread's compute stream. Whatever
/// decides the order of a sum is a constant of the shape.
namespace heddle::cuda::detail {

/// Of a block, where a kernel's rows do not say.
inline constexpr int threads = 256;
/// Of kernels whose threads take packs by turns: some blocks for each multiprocessor of the largest device. Results do
/// not depend on it.
inline constexpr unsigned most_blocks = 2048;

/// Threads of a block that has a row of `width` elements: one for each pack, in whole warps.
template <class T>
constexpr int row_threads(std::size_t width) {
  std::size_t const packs = (width + kernels::pack_width<T> - 1) / kernels::pack_width<T>;
  std::size_t const rounded = (packs + 31) / 32 * 32;
  return rounded < 32 ? 32 : rounded > threads ? threads : static_cast<int>(rounded);
}
/// In how many parts sums over rows are made. Each is a row of a workspace.
constexpr int row_parts(std::size_t rows) {
  constexpr std::size_t rows_of_part = 8, most = 256;
  std::size_t const parts = (rows + rows_of_part - 1) / rows_of_part;
  return parts == 0 ? 1 : parts > most ? static_cast<int>(most) : static_cast<int>(parts);
}
/// Blocks of kernels whose threads keep a column over shares of the rows, where that does not change a sum.
constexpr int row_shares(std::size_t rows) { return rows > 512 ? 512 : static_cast<int>(rows); }

constexpr long long signed_of(std::size_t n) { return static_cast<long long>(n); }
constexpr int int_of(std::size_t n) { return static_cast<int>(n); }

template <class T>
struct plain_type {
  using type = T;
};
/// T, by which kernels of a module's numbers are named: nvcc writes a kernel's parameters as the caller called their
/// type, and cannot write the members of modules that are named by strings.
template <class T>
using plain_t = typename plain_type<T>::type;

// In a template a kernel's arguments must depend on a parameter: what is named with none is not made by g++, nor by
// nvcc, whose launch then fails when it runs.
template <auto Kernel, int Threads = threads, class... Arguments>
void run(dim3 grid, Arguments const&... arguments) {
  launch<Kernel>({.grid = grid, .block = dim3(Threads)}, execution::current().compute(), arguments...);
}
/// A kernel with `pack_grid` over n elements of T.
template <auto Kernel, class T, class... Arguments>
void run_packs(std::size_t n, Arguments const&... arguments) {
  if (n != 0) run<Kernel>(kernels::pack_grid<T, threads>(signed_of(n), most_blocks), arguments...);
}

/// *sum = Σ part[count], or with `Adds` += it: of parts in double.
template <bool Adds, class Part, class Result>
void sum_up(Part const* part, std::size_t count, Result* sum) {
  run<kernels::sum_up<Part, Result, Adds, threads>>(1, reads(part, count), count, writes(sum, 1));
}

}  // namespace heddle::cuda::detail
