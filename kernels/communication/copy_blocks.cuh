// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <support/geometry.cuh>

namespace heddle::kernels {

/// Copies that one launch makes. No destination overlaps anything else of the list.
struct block_copies {
  static constexpr int most = 64;
  unsigned char const* from[most];
  unsigned char* to[most];
  long long bytes[most];
};

/// A block of threads for 16 bytes each of the longest copy, but at most `most` blocks, of each of `copies`.
template <int Threads>
constexpr dim3 copy_grid(long long longest, int copies, unsigned most) {
  dim3 const packs = pack_grid<unsigned char, Threads>(longest, most);
  return dim3(packs.x, static_cast<unsigned>(copies));
}

namespace detail {

/// By `Unit`, to whose multiples `from` and `to` have the same distance; the ends by byte.
template <class Unit, int Threads>
__device__ void copy_by(unsigned char const* from, unsigned char* to, long long bytes) {
  constexpr long long size = sizeof(Unit);
  long long head = static_cast<long long>((size - reinterpret_cast<std::uintptr_t>(to) % size) % size);
  if (head > bytes) head = bytes;
  long long const units = (bytes - head) / size, rest = bytes - head - units * size;
  long long const me = static_cast<long long>(blockIdx.x) * Threads + threadIdx.x;
  // Fewer than a block's threads.
  if (me < head) to[me] = from[me];
  if (me < rest) to[bytes - rest + me] = from[bytes - rest + me];
  Unit const* const in = reinterpret_cast<Unit const*>(from + head);
  Unit* const out = reinterpret_cast<Unit*>(to + head);
  long long const stride = static_cast<long long>(gridDim.x) * Threads;
  for (long long i = me; i < units; i += stride) {
    HEDDLE_ALIGNED(in + i, sizeof(Unit));
    HEDDLE_ALIGNED(out + i, sizeof(Unit));
    out[i] = in[i];
  }
}

}  // namespace detail

/// Copy blockIdx.y of the list: bytes, in as large accesses as the distance of both sides allows. Grid: `copy_grid`.
template <int Threads>
__global__ void __launch_bounds__(Threads) copy_blocks(const __grid_constant__ block_copies list) {
  static_assert(Threads >= 16);
  unsigned char const* const from = list.from[blockIdx.y];
  unsigned char* const to = list.to[blockIdx.y];
  long long const bytes = list.bytes[blockIdx.y];
  auto const apart = reinterpret_cast<std::uintptr_t>(from) ^ reinterpret_cast<std::uintptr_t>(to);
  if (apart % 16 == 0)
    detail::copy_by<detail::raw_pack<unsigned, 4>, Threads>(from, to, bytes);
  else if (apart % 4 == 0)
    detail::copy_by<unsigned, Threads>(from, to, bytes);
  else if (apart % 2 == 0)
    detail::copy_by<unsigned short, Threads>(from, to, bytes);
  else
    detail::copy_by<unsigned char, Threads>(from, to, bytes);
}

}  // namespace heddle::kernels
