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

  /// Those at p[i + low] to p[i + count - 1], in one access if they are the whole pack.
  template <class Join>
  __device__ void take(T const* p, long long i, int low, int count, bool whole, Join const& join) {
    if (whole) {
      HEDDLE_ALIGNED(p + i, 16);
      raw const all = *reinterpret_cast<raw const*>(p + i);
      for (int j = 0; j < width; ++j) value[j] = join(value[j], A(all.value[j]));
    } else {
      for (int j = 0; j < width; ++j)
        if (j >= low && j < count) value[j] = join(value[j], A(p[i + j]));
    }
  }
  __device__ void store(T* p, long long i, int low, int count, bool whole) const {
    if (whole) {
      HEDDLE_ALIGNED(p + i, 16);
      raw all;
      for (int j = 0; j < width; ++j) all.value[j] = T(value[j]);
      *reinterpret_cast<raw*>(p + i) = all;
    } else {
      for (int j = 0; j < width; ++j)
        if (j >= low && j < count) p[i + j] = T(value[j]);
    }
  }
};

}  // namespace detail

/// outs.of[k][i] = the join of in.of[r][i], r = 0, 1, … `ranks` - 1 in that order, in the type A, rounded once: for
/// each of `results` arrays of n elements, every element of which is read once. An out may be one of the arrays that
/// are read, at the same place; else they are apart. Accesses are of 16 bytes but at both ends, where all arrays begin
/// at the same distance from a multiple of 16; else they are by element. Grid: `pack_grid`.
template <class T, class A, comm::reduction How, int Threads>
__global__ void __launch_bounds__(Threads)
    join_ranks(const __grid_constant__ rank_arrays<T const> in, int ranks, const __grid_constant__ rank_arrays<T> outs,
               int results, long long n) {
  using taken = detail::joined_pack<T, A>;
  std::uintptr_t const first = reinterpret_cast<std::uintptr_t>(in.of[0]);
  std::uintptr_t unlike = first & (sizeof(T) - 1);
  for (int r = 1; r < ranks; ++r) unlike |= (reinterpret_cast<std::uintptr_t>(in.of[r]) ^ first) & 15U;
  for (int k = 0; k < results; ++k) unlike |= (reinterpret_cast<std::uintptr_t>(outs.of[k]) ^ first) & 15U;
  // Packs are counted from the multiple of 16 at or before the arrays.
  int const lead = unlike == 0 ? static_cast<int>((first & 15U) / sizeof(T)) : 0;
  for_each_pack<T, Threads>(n + lead, unlike == 0, [&](long long from, int count, bool whole) {
    long long const i = from - lead;
    int const low = i < 0 ? lead : 0;
    bool const all = whole && low == 0;
    taken sum;
    for (int j = 0; j < taken::width; ++j) sum.value[j] = A(0);
    sum.take(in.of[0], i, low, count, all, [](A, A next) { return next; });
    for (int r = 1; r < ranks; ++r)
      sum.take(in.of[r], i, low, count, all, [](A before, A next) { return comm::detail::joined<How>(before, next); });
    for (int k = 0; k < results; ++k) sum.store(outs.of[k], i, low, count, all);
  });
}

}  // namespace heddle::kernels
