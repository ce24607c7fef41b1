// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <communication/rank_arrays.cuh>
#include <heddle/comm/detail/joined.hpp>
#include <support/for_each_pack.cuh>

namespace heddle::kernels {

namespace detail {

/// `width` elements as they are summed: of integers, too.
template <class T, class A>
struct joined_pack {
  static constexpr int width = pack_width<T>;
  using raw = raw_pack<T, width>;
  A value[width];

  /// The first `count` elements at p, in one access if that is `whole`.
  template <class Join>
  __device__ void take(T const* p, int count, bool whole, Join const& join) {
    if (whole) {
      HEDDLE_ALIGNED(p, 16);
      raw const all = *reinterpret_cast<raw const*>(p);
      for (int j = 0; j < width; ++j) value[j] = join(value[j], A(all.value[j]));
    } else {
      for (int j = 0; j < width; ++j)
        if (j < count) value[j] = join(value[j], A(p[j]));
    }
  }
  __device__ void store(T* p, int count, bool whole) const {
    if (whole) {
      HEDDLE_ALIGNED(p, 16);
      raw all;
      for (int j = 0; j < width; ++j) all.value[j] = T(value[j]);
      *reinterpret_cast<raw*>(p) = all;
    } else {
      for (int j = 0; j < width; ++j)
        if (j < count) p[j] = T(value[j]);
    }
  }
};

}  // namespace detail

/// outs.of[k][i] = the join of in.of[r][i], r = 0, 1, … `ranks` - 1 in that order, in the type A, rounded once: for
/// each of `results` arrays of n elements, every element of which is read once. An out may be one of the arrays that
/// are read, at the same place; else they are apart. What is not accessed in 16 bytes, because not all arrays begin at
/// the same distance from a multiple of 16, or at an end, is by element. Grid: `pack_grid`.
template <class T, class A, comm::reduction How, int Threads>
__global__ void __launch_bounds__(Threads)
    join_ranks(const __grid_constant__ rank_arrays<T const> in, int ranks, const __grid_constant__ rank_arrays<T> outs,
               int results, long long n) {
  using taken = detail::joined_pack<T, A>;
  std::uintptr_t const first = reinterpret_cast<std::uintptr_t>(in.of[0]);
  std::uintptr_t unlike = first & (sizeof(T) - 1);
  for (int r = 1; r < ranks; ++r) unlike |= (reinterpret_cast<std::uintptr_t>(in.of[r]) ^ first) & 15U;
  for (int k = 0; k < results; ++k) unlike |= (reinterpret_cast<std::uintptr_t>(outs.of[k]) ^ first) & 15U;
  auto const body = [&](long long i, int count, bool whole) {
    taken sum;
    for (int j = 0; j < taken::width; ++j) sum.value[j] = A(0);
    sum.take(in.of[0] + i, count, whole, [](A, A next) { return next; });
    for (int r = 1; r < ranks; ++r)
      sum.take(in.of[r] + i, count, whole, [](A before, A next) { return comm::detail::joined<How>(before, next); });
    for (int k = 0; k < results; ++k) sum.store(outs.of[k] + i, count, whole);
  };
  // What lies before the first multiple of 16 is less than a pack.
  long long head = 0;
  if (unlike == 0) {
    head = static_cast<long long>((16 - (first & 15U)) % 16 / sizeof(T));
    if (head > n) head = n;
    if (head != 0 && blockIdx.x == 0 && threadIdx.x == 0) body(0, static_cast<int>(head), false);
  }
  for_each_pack<T, Threads>(n - head, unlike == 0,
                            [&](long long i, int count, bool whole) { body(head + i, count, whole); });
}

}  // namespace heddle::kernels
