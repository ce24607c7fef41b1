// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <redistribution/copy_runs.cuh>

/// The transposes of a redistribution: a tensor seen as [outer, extent, inner], of whose middle dimension each of
/// `ways` ranks has a block, and its packed copy [ways, outer, block, inner], in which each rank's part is contiguous:
/// the host's are `host_memory::blocks_to_front` and `blocks_from_front`. block = ⌈extent/ways⌉, so the last blocks may
/// hold padding, which is zero in the copy and is not in the tensor.
namespace heddle::kernels {

/// Blocks `first`, first + 1, … of a dimension: all of them for a collective, one for a local slice.
struct blocks_shape {
  long long outer, extent, inner, block, first;
};
constexpr blocks_shape blocks_of(long long outer, long long extent, long long inner, long long ways,
                                 long long first = 0) {
  return {outer, extent, inner, (extent + ways - 1) / ways, first};
}
/// Elements of the copy of `count` blocks.
constexpr long long blocks_size(blocks_shape const& s, long long count) { return count * s.outer * s.block * s.inner; }

namespace detail {
struct block_runs {
  blocks_shape const& s;
  __device__ run_position operator()(long long i) const {
    long long const length = s.block * s.inner, run = i / length, inside = i - run * length;
    long long const way = run / s.outer, row = run - way * s.outer, begin = (s.first + way) * s.block;
    long long const exist = s.extent - begin < s.block ? s.extent - begin : s.block;
    return {(row * s.extent + begin) * s.inner + inside, exist * s.inner - inside, length - inside};
  }
};
}  // namespace detail

/// out[blocks, outer, block, inner] of in[outer, extent, inner], n = `blocks_size`. Grid: `pack_grid`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) blocks_to_front(T const* in, T* out, blocks_shape shape, long long n) {
  detail::for_each_run<T, Threads>(n, detail::block_runs{shape},
                                   [&](long long i, detail::run_position const& at, int count) {
                                     detail::copy_padded(at.real > 0 ? in + at.base : in, at.real, out + i, count);
                                   });
}

/// The reverse: elements of out[outer, extent, inner] that are in blocks of `in`.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) blocks_from_front(T const* in, T* out, blocks_shape shape, long long n) {
  detail::for_each_run<T, Threads>(n, detail::block_runs{shape},
                                   [&](long long i, detail::run_position const& at, int count) {
                                     if (at.real <= 0) return;
                                     int const real = at.real < count ? static_cast<int>(at.real) : count;
                                     detail::copy_padded(in + i, real, out + at.base, real);
                                   });
}

/// One block of a dimension, shape.first, where the tensor stands: `blocks_to_front` with `out` = `in`. Everything
/// moves towards the front, in the order of its place there, by a single block of threads, which has read what it is
/// about to write over. Grid: one block.
template <class T, int Threads>
__global__ void __launch_bounds__(Threads) block_in_place(T* x, blocks_shape shape, long long n) {
  detail::block_runs const runs{shape};
  for (long long first = 0; first < n; first += Threads) {
    long long const i = first + static_cast<long long>(threadIdx.x);
    T value = T(0.0F);
    if (i < n)
      if (detail::run_position const at = runs(i); at.real > 0) value = x[at.base];
    __syncthreads();
    if (i < n) x[i] = value;
    __syncthreads();
  }
}

}  // namespace heddle::kernels
