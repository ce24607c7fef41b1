// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <attention/backward.cuh>
#include <attention/tuning.cuh>
#include <cstddef>
#include <heddle/backend/cuda/grid.hpp>
#include <span>

namespace heddle::cuda {

namespace detail {

/// The compute capability whose tunings are launched: the lowest that this is compiled for, since one piece of host
/// code launches on them all. Compile for one architecture alone to have its own.
constexpr int compiled_capability() {
#if defined(__CUDA_ARCH_LIST__)
  constexpr int all[] = {__CUDA_ARCH_LIST__};
  return all[0] / 10;
#else
  return 80;
#endif
}

/// The kernels of attention, tuned. What they use of the memory behind their operands is given beside.
template <class T, int HeadDim>
struct attention_launches {
  using A = kernels::accumulator_t<T>;
  template <class U>
  using rows = kernels::attention_rows<U>;
  static constexpr int capability = compiled_capability();
  static constexpr bool cores = kernels::attention_on_tensor_cores<T>(capability);
  static constexpr kernels::attention_tile forward_tile =
      kernels::tuning<kernels::attention_forward_kernel<T, HeadDim, cores>>::at(capability);
  static constexpr kernels::attention_tile query_tile =
      kernels::tuning<kernels::attention_query_gradient_kernel<T, HeadDim, cores>>::at(capability);
  static constexpr kernels::attention_tile key_tile =
      kernels::tuning<kernels::attention_key_gradient_kernel<T, HeadDim, cores>>::at(capability);

  int batch;
  kernels::attention_shape shape;

  [[nodiscard]] std::size_t statistics() const {
    return static_cast<std::size_t>(kernels::attention_statistics(batch, shape));
  }
  template <auto Kernel, class... Arguments>
  void run_tiles(kernels::attention_tile const& tile, int group, int tokens, Arguments const&... arguments) const {
    launch<Kernel>({.grid = kernels::attention_grid(batch, shape.kv_heads, group, tokens, tile.rows),
                    .block = dim3(static_cast<unsigned>(tile.threads)),
                    .shared_bytes = static_cast<std::size_t>(tile.shared)},
                   execution::current().compute(), shape, arguments...);
  }

  void forward(rows<T const> const& q, rows<T const> const& k, rows<T const> const& v, rows<T> const& y, A* log_sum_exp,
               std::span<memory_use const> uses) const {
    constexpr kernels::attention_tile tile = forward_tile;
    auto const statistic = writes(log_sum_exp, statistics());
    if constexpr (cores)
      run_tiles<kernels::attention_forward_mma<T, HeadDim, tile.rows, tile.columns, tile.threads>>(
          tile, shape.group, shape.queries, carries(q, uses), k, v, y, statistic);
    else
      run_tiles<kernels::attention_forward<T, HeadDim, tile.rows, tile.columns, tile.threads>>(
          tile, shape.group, shape.queries, carries(q, uses), k, v, y, statistic);
  }
  void backward(rows<T const> const& q, rows<T const> const& k, rows<T const> const& v, rows<T const> const& y,
                rows<T const> const& dy, A const* log_sum_exp, rows<T> const& dq, rows<T> const& dk, rows<T> const& dv,
                A* inner, std::span<memory_use const> uses) const {
    std::size_t const n = statistics();
    launch<kernels::attention_inner<T, HeadDim, threads>>(
        {.grid = kernels::attention_inner_grid<T, HeadDim, threads>(signed_of(n)), .block = dim3(threads)},
        execution::current().compute(), shape, n, carries(y, uses), dy, writes(inner, n));
    constexpr kernels::attention_tile by_query = query_tile, by_key = key_tile;
    auto const lse = reads(log_sum_exp, n);
    auto const sums = reads(inner, n);
    if constexpr (cores) {
      run_tiles<kernels::attention_query_gradient_mma<T, HeadDim, by_query.rows, by_query.columns, by_query.threads>>(
          by_query, shape.group, shape.queries, carries(q, uses), k, v, dy, lse, sums, dq);
      run_tiles<kernels::attention_key_gradient_mma<T, HeadDim, by_key.rows, by_key.columns, by_key.threads>>(
          by_key, 1, shape.keys, carries(q, uses), k, v, dy, lse, sums, dk, dv);
    } else {
      run_tiles<kernels::attention_query_gradient<T, HeadDim, by_query.rows, by_query.columns, by_query.threads>>(
          by_query, shape.group, shape.queries, carries(q, uses), k, v, dy, lse, sums, dq);
      run_tiles<kernels::attention_key_gradient<T, HeadDim, by_key.rows, by_key.columns, by_key.threads>>(
          by_key, 1, shape.keys, carries(q, uses), k, v, dy, lse, sums, dk, dv);
    }
  }
};

}  // namespace detail

/// `host::attentions` on a device: memory linear in the sequence. Statistics are in the type that is computed with;
/// `scratch` has `attention_scratch` (none) or `attention_backward_scratch` elements. Arrays lie as there.
struct attentions {
  template <class T>
  using statistic = kernels::accumulator_t<T>;

  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
  static constexpr std::size_t attention_scratch() {
    return 0;
  }
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
  static constexpr std::size_t attention_backward_scratch() {
    return Batch * KvHeads * Group * Sequence;
  }

  /// Writes y and log_sum_exp.
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void attention(T const* qkv, T* y, statistic<T>* log_sum_exp, statistic<T>*) {
    constexpr std::size_t heads = Batch * KvHeads * Sequence * HeadDim;
    if constexpr (heads != 0) {
      auto const in = kernels::fused_rows<HeadDim>(qkv, Sequence, KvHeads, Group);
      std::array const uses{use_of(reads(qkv, heads * (Group + 2))), use_of(writes(y, heads * Group))};
      fused<Batch, Sequence, KvHeads, Group, HeadDim, T>.forward(
          in.queries, in.keys, in.values, kernels::output_rows<HeadDim>(y, Sequence, KvHeads, Group), log_sum_exp,
          uses);
    }
  }
  /// Writes dqkv, given qkv and what forward wrote.
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void attention_backward(T const* qkv, T const* y, statistic<T> const* log_sum_exp, T const* dy, T* dqkv,
                                 statistic<T>* scratch) {
    constexpr std::size_t heads = Batch * KvHeads * Sequence * HeadDim;
    if constexpr (heads != 0) {
      auto const in = kernels::fused_rows<HeadDim>(qkv, Sequence, KvHeads, Group);
      auto const out = kernels::fused_rows<HeadDim>(dqkv, Sequence, KvHeads, Group);
      std::array const uses{use_of(reads(qkv, heads * (Group + 2))), use_of(reads(y, heads * Group)),
                            use_of(reads(dy, heads * Group)), use_of(writes(dqkv, heads * (Group + 2)))};
      fused<Batch, Sequence, KvHeads, Group, HeadDim, T>.backward(
          in.queries, in.keys, in.values, kernels::output_rows<HeadDim>(y, Sequence, KvHeads, Group),
          kernels::output_rows<HeadDim>(dy, Sequence, KvHeads, Group), log_sum_exp, out.queries, out.keys, out.values,
          scratch, uses);
    }
  }

 private:
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static constexpr detail::attention_launches<detail::plain_t<T>, detail::int_of(HeadDim)> fused{
      detail::int_of(Batch),
      {detail::int_of(Sequence), detail::int_of(Sequence), detail::int_of(KvHeads), detail::int_of(Group), 0}};
};

}  // namespace heddle::cuda
