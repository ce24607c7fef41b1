// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cast/cast.cuh>
#include <heddle/tensor/scattering.hpp>
#include <redistribution/copy_runs.cuh>
#include <support/geometry.cuh>
#include <type_traits>

/// `host_memory::pack_shares` and `unpack_shares` on a device: elements [begin, begin + count) of every rank's share of
/// a tensor that several reduce-scatters cut, to where they travel together with those of other tensors, and back.
namespace heddle::kernels {

/// A `scattering` for device code, which may not call std::array.
struct share_map {
  int last = 0;                  ///< the innermost dimension that is scattered: from there on rows are contiguous
  int scatters = 0, ways = 1;    ///< `ways` shares in all
  long long inner = 1, row = 1;  ///< elements of an index of `last`, and of a share's row
  long long whole[max_rank]{}, share[max_rank]{};
  int scatter_ways[max_steps]{}, scatter_dim[max_steps]{};

  /// On the host.
  static share_map of(scattering const& s) {
    share_map out;
    out.scatters = static_cast<int>(s.count);
    out.ways = static_cast<int>(s.all_ways);
    for (std::size_t i = 0; i < s.count; ++i) {
      out.scatter_ways[i] = static_cast<int>(s.ways[i]);
      out.scatter_dim[i] = static_cast<int>(s.dim[i]);
      if (out.scatter_dim[i] > out.last) out.last = out.scatter_dim[i];
    }
    for (std::size_t k = 0; k < s.rank; ++k) {
      out.whole[k] = static_cast<long long>(s.whole[k]);
      out.share[k] = static_cast<long long>(s.share[k]);
      if (static_cast<int>(k) > out.last) out.inner *= out.whole[k];
    }
    if (s.rank == 0) out.whole[0] = out.share[0] = 1;
    out.row = out.share[out.last] * out.inner;
    return out;
  }
};

/// A block for packs of `count` elements of a share, of each of its ways.
template <class T, int Threads>
constexpr dim3 share_grid(long long count, int ways, unsigned most) {
  dim3 const packs = pack_grid<T, Threads>(count, most);
  return dim3(packs.x, static_cast<unsigned>(ways));
}

namespace detail {

/// What share `way` has of dimension k: indices from `origin` on, of which `real` are the tensor's.
struct share_extent {
  long long origin, real;
};
__device__ inline share_extent share_of(share_map const& map, int way, int k) {
  share_extent out{0, map.whole[k]};
  long long extent = map.whole[k];
  int below = map.ways;
  for (int i = 0; i < map.scatters; ++i) {
    below /= map.scatter_ways[i];
    int const index = way / below;
    way %= below;
    if (map.scatter_dim[i] != k) continue;
    extent = (extent + map.scatter_ways[i] - 1) / map.scatter_ways[i];
    long long const from = index * extent, left = out.real > from ? out.real - from : 0;
    out.origin += from;
    out.real = left < extent ? left : extent;
  }
  return out;
}

/// The runs of a share, whose extents are in shared memory.
template <class Shared>
struct share_runs {
  share_map const& map;
  Shared& origin;
  Shared& real;
  long long begin, count;

  __device__ run_position operator()(long long i) const {
    long long outer = (begin + i) / map.row;
    long long const inside = begin + i - outer * map.row;
    long long base = origin[map.last] * map.inner + inside, span = map.whole[map.last] * map.inner;
    bool exists = true;
    for (int k = map.last - 1; k >= 0; --k) {
      long long const next = outer / map.share[k], index = outer - next * map.share[k];
      exists = exists && index < real[k];
      base += (origin[k] + index) * span;
      span *= map.whole[k];
      outer = next;
    }
    return {base, exists ? real[map.last] * map.inner - inside : 0, map.row - inside};
  }
};

/// body(i, position, count) for the packs of this block's share.
template <class T, int Threads, class Body>
__device__ void for_each_of_share(share_map const& map, long long begin, long long count, Body const& body) {
  HEDDLE_SHARED(origin, max_rank, long long);
  HEDDLE_SHARED(real, max_rank, long long);
  static_assert(Threads >= static_cast<int>(max_rank));
  if (int const k = static_cast<int>(threadIdx.x); k <= map.last) {
    share_extent const extent = share_of(map, static_cast<int>(blockIdx.y), k);
    origin[k] = extent.origin;
    real[k] = extent.real;
  }
  __syncthreads();
  using shared = std::remove_reference_t<decltype(origin)>;
  for_each_run<T, Threads>(count, share_runs<shared>{map, origin, real, begin, count}, body);
}

}  // namespace detail

/// to[w·stride + i] = element begin + i of share w of `tensor`, zero where that is padding, rounded or widened where
/// what travels is of another type. Grid: `share_grid` of `cast_unit_t`.
template <class From, class To, int Threads>
__global__ void __launch_bounds__(Threads) pack_shares(From const* tensor, const __grid_constant__ share_map map,
                                                       long long begin, long long count, To* to, long long stride) {
  using unit = cast_unit_t<From, To>;
  To* const out = to + blockIdx.y * stride;
  detail::for_each_of_share<unit, Threads>(
      map, begin, count, [&](long long i, detail::run_position const& at, int width) {
        From const* const in = at.real > 0 ? tensor + at.base : tensor;
        if constexpr (std::is_same_v<From, To>) {
          detail::copy_padded(in, at.real, out + i, width);
        } else {
          int const real = at.real <= 0 ? 0 : at.real < width ? static_cast<int>(at.real) : width;
          bool const whole = real == pack_width<unit> && aligned_for_packs(in) && aligned_for_packs(out + i);
          store_pack(out + i, load_pack<unit>(in, real, whole), width, whole);
        }
      });
}

/// The reverse, for what is not padding: tensor = from, or with `Adds` tensor += from, in the type that the tensor is
/// computed with in: a gradient's type may be wider than what travels, or narrower. Grid: `share_grid` of
/// `cast_unit_t`.
template <class From, class To, bool Adds, int Threads>
__global__ void __launch_bounds__(Threads)
    unpack_shares(From const* from, const __grid_constant__ share_map map, long long begin, long long count, To* tensor,
                  long long stride) {
  using unit = cast_unit_t<From, To>;
  From const* const in = from + blockIdx.y * stride;
  detail::for_each_of_share<unit, Threads>(
      map, begin, count, [&](long long i, detail::run_position const& at, int width) {
        if (at.real <= 0) return;
        int const real = at.real < width ? static_cast<int>(at.real) : width;
        To* const out = tensor + at.base;
        bool const whole = real == pack_width<unit> && aligned_for_packs(in + i) && aligned_for_packs(out);
        if constexpr (Adds)
          detail::add_cast_pack(in + i, out, real, whole);
        else
          store_pack(out, load_pack<unit>(in + i, real, whole), real, whole);
      });
}

}  // namespace heddle::kernels
