// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/for_each_pack.cuh>
#include <type_traits>

namespace heddle::kernels {

/// The narrower of both types: its packs are cast at a time.
template <class From, class To>
using cast_unit_t = std::conditional_t<(sizeof(From) < sizeof(To)), From, To>;

/// y[n] = x[n] in another type, to the nearest, ties to even; what is too large for a narrower type becomes infinite,
/// and NaN stays NaN. `y` may be `x` where the types are of one size. Grid: `pack_grid` of `cast_unit_t`.
template <class From, class To, int Threads>
__global__ void __launch_bounds__(Threads) cast(From const* x, To* y, long long n) {
  using unit = cast_unit_t<From, To>;
  for_each_pack<unit, Threads>(n, aligned_for_packs(x) && aligned_for_packs(y),
                               [&](long long i, int count, bool whole) {
                                 store_pack(y + i, load_pack<unit>(x + i, count, whole), count, whole);
                               });
}

namespace detail {
/// to[0..count) += from, `count` at most a pack of `cast_unit_t`: each sum in the type that To is computed with in, and
/// rounded once.
template <class From, class To>
__device__ void add_cast_pack(From const* from, To* to, int count, bool whole) {
  using unit = cast_unit_t<From, To>;
  if constexpr (std::is_same_v<accumulator_t<unit>, accumulator_t<To>>) {
    pack<unit> sum = load_pack<unit>(to, count, whole);
    pack<unit> const term = load_pack<unit>(from, count, whole);
    for (int j = 0; j < pack_width<unit>; ++j) sum[j] += term[j];
    store_pack(to, sum, count, whole);
  } else {  // to double, whose digits a pack of the other type would lose
    for (int j = 0; j < count; ++j) to[j] += accumulator_t<To>(accumulator_t<From>(from[j]));
  }
}
}  // namespace detail

/// y[n] += x[n], which may be of another type: each sum in the type that y is computed with in, and rounded once. Grid:
/// `pack_grid` of `cast_unit_t`.
template <class From, class To, int Threads>
__global__ void __launch_bounds__(Threads) add_cast(From const* x, To* y, long long n) {
  for_each_pack<cast_unit_t<From, To>, Threads>(
      n, aligned_for_packs(x) && aligned_for_packs(y),
      [&](long long i, int count, bool whole) { detail::add_cast_pack(x + i, y + i, count, whole); });
}

}  // namespace heddle::kernels
