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

}  // namespace heddle::kernels
