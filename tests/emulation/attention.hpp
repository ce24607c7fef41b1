// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/tuning.cuh>
#include <cstddef>
#include <utility>
#include <vector>

#include "attention_reference.hpp"
#include "guarded.hpp"
#include "launch.hpp"

namespace heddle::emulation {

enum class attention_path { plain, tensor_cores };

/// The tiles of the three kernels with tiles.
struct attention_tiles {
  kernels::attention_tile forward, query_gradient, key_gradient;
};
template <class T, int HeadDim, attention_path Path>
struct tuned_for_80 {
  static constexpr bool cores = Path == attention_path::tensor_cores;
  static constexpr attention_tiles tiles{
      kernels::tuning<kernels::attention_forward_kernel<T, HeadDim, cores>>::at(80),
      kernels::tuning<kernels::attention_query_gradient_kernel<T, HeadDim, cores>>::at(80),
      kernels::tuning<kernels::attention_key_gradient_kernel<T, HeadDim, cores>>::at(80)};
};
/// The smallest tiles that there are.
template <class T, int HeadDim, attention_path Path>
struct smallest {
  static constexpr bool cores = Path == attention_path::tensor_cores;
  static constexpr attention_tiles tiles{
      kernels::tuning<kernels::attention_forward_kernel<T, HeadDim, cores>>::template tile<16, 16>,
      kernels::tuning<kernels::attention_query_gradient_kernel<T, HeadDim, cores>>::template tile<16, 16>,
      kernels::tuning<kernels::attention_key_gradient_kernel<T, HeadDim, cores>>::template tile<16, 16>};
};

/// The kernels of attention, launched as they ask for it. `missing` is what is left out of their shared memory.
template <class T, int HeadDim, attention_path Path, class Tiles = tuned_for_80<T, HeadDim, Path>>
struct attention_kernels {
  using A = kernels::accumulator_t<T>;
  static constexpr bool cores = Path == attention_path::tensor_cores;
  attention_case what;
  std::size_t missing = 0;

  [[nodiscard]] dynamic_shared_bytes bytes(kernels::attention_tile const& tile) const {
    return {static_cast<std::size_t>(tile.shared) - missing};
  }
  [[nodiscard]] dim3 grid(kernels::attention_tile const& tile, int group, int tokens) const {
    return kernels::attention_grid(what.batch, what.kv_heads, group, tokens, tile.rows);
  }

  void forward(T const* x, T* y, A* log_sum_exp) const {
    constexpr kernels::attention_tile tile = Tiles::tiles.forward;
    auto const in = what.template inputs<HeadDim>(x);
    dim3 const blocks = grid(tile, what.group, what.queries), threads(static_cast<unsigned>(tile.threads));
    if constexpr (cores)
      launch<kernels::attention_forward_mma<T, HeadDim, tile.rows, tile.columns, tile.threads>>(
          blocks, threads, bytes(tile), what.shape(), in.queries, in.keys, in.values, what.template outputs<HeadDim>(y),
          log_sum_exp);
    else
      launch<kernels::attention_forward<T, HeadDim, tile.rows, tile.columns, tile.threads>>(
          blocks, threads, bytes(tile), what.shape(), in.queries, in.keys, in.values, what.template outputs<HeadDim>(y),
          log_sum_exp);
  }
  void backward(T const* x, T const* y, A const* log_sum_exp, T const* dy, A* inner, T* dx) const {
    constexpr int inner_threads = 64;
    long long const statistics = kernels::attention_statistics(what.batch, what.shape());
    auto const dy_rows = what.template outputs<HeadDim>(dy);
    launch<kernels::attention_inner<T, HeadDim, inner_threads>>(
        kernels::attention_inner_grid<T, HeadDim, inner_threads>(statistics), dim3(inner_threads), what.shape(),
        statistics, what.template outputs<HeadDim>(y), dy_rows, inner);
    auto const in = what.template inputs<HeadDim>(x);
    auto const out = what.template inputs<HeadDim>(dx);
    constexpr kernels::attention_tile by_query = Tiles::tiles.query_gradient, by_key = Tiles::tiles.key_gradient;
    dim3 const query_blocks = grid(by_query, what.group, what.queries), key_blocks = grid(by_key, 1, what.keys);
    dim3 const query_threads(static_cast<unsigned>(by_query.threads)),
        key_threads(static_cast<unsigned>(by_key.threads));
    if constexpr (cores) {
      launch<kernels::attention_query_gradient_mma<T, HeadDim, by_query.rows, by_query.columns, by_query.threads>>(
          query_blocks, query_threads, bytes(by_query), what.shape(), in.queries, in.keys, in.values, dy_rows,
          log_sum_exp, std::as_const(inner), out.queries);
      launch<kernels::attention_key_gradient_mma<T, HeadDim, by_key.rows, by_key.columns, by_key.threads>>(
          key_blocks, key_threads, bytes(by_key), what.shape(), in.queries, in.keys, in.values, dy_rows, log_sum_exp,
          std::as_const(inner), out.keys, out.values);
    } else {
      launch<kernels::attention_query_gradient<T, HeadDim, by_query.rows, by_query.columns, by_query.threads>>(
          query_blocks, query_threads, bytes(by_query), what.shape(), in.queries, in.keys, in.values, dy_rows,
          log_sum_exp, std::as_const(inner), out.queries);
      launch<kernels::attention_key_gradient<T, HeadDim, by_key.rows, by_key.columns, by_key.threads>>(
          key_blocks, key_threads, bytes(by_key), what.shape(), in.queries, in.keys, in.values, dy_rows, log_sum_exp,
          std::as_const(inner), out.keys, out.values);
    }
  }
};

/// What they give.
template <class T>
struct attention_results {
  std::vector<wide<T>> y;
  std::vector<kernels::accumulator_t<T>> log_sum_exp;
  std::vector<wide<T>> dx;
};
template <class T, int HeadDim, attention_path Path, template <class, int, attention_path> class Tiles = tuned_for_80>
attention_results<T> attend(attention_case const& what, std::vector<wide<T>> const& x, std::vector<wide<T>> const& dy,
                            std::size_t offset = 0) {
  using A = kernels::accumulator_t<T>;
  attention_kernels<T, HeadDim, Path, Tiles<T, HeadDim, Path>> const kernels{what};
  guarded<T> const x_there(x, offset), dy_there(dy, offset);
  guarded<T> y(what.output(HeadDim), offset), dx(x.size(), offset);
  guarded<A> log_sum_exp(what.statistics(), offset), inner(what.statistics(), offset);
  kernels.forward(x_there.read(), y.data(), log_sum_exp.data());
  kernels.backward(x_there.read(), y.read(), log_sum_exp.read(), dy_there.read(), inner.data(), dx.data());
  return {y.values(), log_sum_exp.values(), dx.values()};
}

}  // namespace heddle::emulation
