// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <heddle/backend/host/attention_core.hpp>
#include <heddle/backend/host/deal.hpp>

namespace heddle::host {

namespace detail {

/// Sizes of the fused projection, and where its parts lie.
template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
struct fused_attention_shape {
  static_assert(
      Sequence > 0 && KvHeads > 0 && Group > 0 && HeadDim > 0,
      "attention<Batch, Sequence, KvHeads, Group, HeadDim>: each size must be at least 1; 'Group' is the number "
      "of query heads of one key and value head, 1 for plain multi-head attention");
  static constexpr std::size_t slots = Group + 2;
  static constexpr std::size_t input_stride = KvHeads * slots * HeadDim;
  static constexpr std::size_t output_stride = KvHeads * Group * HeadDim;

  static constexpr std::size_t input(std::size_t batch, std::size_t head, std::size_t slot) {
    return batch * Sequence * input_stride + (head * slots + slot) * HeadDim;
  }
  static constexpr std::size_t output(std::size_t batch, std::size_t head, std::size_t group) {
    return batch * Sequence * output_stride + (head * Group + group) * HeadDim;
  }
  static constexpr std::size_t statistics(std::size_t batch, std::size_t head, std::size_t group) {
    return ((batch * KvHeads + head) * Group + group) * Sequence;
  }
};

/// Slack that lets `aligned_scratch` start at a cache line, in elements of either type.
inline constexpr std::size_t scratch_slack = 16;

template <class T>
T* aligned_scratch(T* scratch) {
  auto const address = reinterpret_cast<std::uintptr_t>(scratch);
  return scratch + (64 - address % 64) % 64 / sizeof(T);
}

/// Forward of one head after its keys and values are packed.
template <class Head, class T>
void attend(std::size_t queries, std::size_t keys, strided_rows<T const> q, accumulation_t<T> const* k,
            accumulation_t<T> const* v, strided_rows<T> y, accumulation_t<T>* log_sum_exp, accumulation_t<T>* scratch) {
  for (std::size_t first = 0; first < queries; first += tile_queries)
    Head::forward({q.row(first), q.stride}, queries - first < tile_queries ? queries - first : tile_queries, k, v, keys,
                  static_cast<std::ptrdiff_t>(first + keys) - static_cast<std::ptrdiff_t>(queries),
                  {y.row(first), y.stride}, log_sum_exp + first, scratch);
}

/// Backward of one head: dq is written, dk (without its factor) and dv, packed, are added to.
template <class Head, class T>
void attend_backward(std::size_t queries, std::size_t keys, strided_rows<T const> q, accumulation_t<T> const* k,
                     accumulation_t<T> const* v, strided_rows<T const> y, strided_rows<T const> dy,
                     accumulation_t<T> const* log_sum_exp, strided_rows<T> dq, accumulation_t<T>* dk,
                     accumulation_t<T>* dv, accumulation_t<T>* scratch) {
  for (std::size_t first = 0; first < queries; first += tile_queries)
    Head::backward({q.row(first), q.stride}, queries - first < tile_queries ? queries - first : tile_queries, k, v,
                   keys, static_cast<std::ptrdiff_t>(first + keys) - static_cast<std::ptrdiff_t>(queries),
                   {y.row(first), y.stride}, {dy.row(first), dy.stride}, log_sum_exp + first,
                   {dq.row(first), dq.stride}, dk, dv, scratch);
}

template <class T>
void unpack_rows(accumulation_t<T> const* from, std::size_t width, std::size_t rows, std::size_t columns,
                 accumulation_t<T> factor, strided_rows<T> to) {
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < columns; ++c) to.row(r)[c] = static_cast<T>(from[r * width + c] * factor);
}

}  // namespace detail

/// Causal scaled-dot-product attention, y = softmax(q·kᵀ / sqrt(HeadDim))·v over the keys up to each query, for
/// multi-head, grouped-query and multi-query attention (Vaswani et al. 2017; Ainslie et al., arXiv 2305.13245), by
/// FlashAttention-2's tiles (Dao, arXiv 2307.08691): no matrix of scores, scratch linear in the sequence, on-line
/// softmax, probabilities computed again in the backward pass from `log_sum_exp`.
///
/// All arrays row-major and contiguous, sums and what is kept for backward in `accumulation_t<T>`:
///   qkv, dqkv        [Batch, Sequence, KvHeads, Group + 2, HeadDim]; of a key-value head the slots 0..Group-1 are its
///   query
///                    heads, slot Group its key, slot Group+1 its value
///   y, dy            [Batch, Sequence, KvHeads, Group, HeadDim]
///   log_sum_exp      [Batch, KvHeads, Group, Sequence], natural logarithm of Σ exp(score), kept for backward
/// A query without any key (only in `attention_core`) gives y = 0, log_sum_exp = -inf and zero gradients. NaN and
/// infinity in the input come out as NaN. Key-value heads are dealt to the threads of the rank; nothing is allocated
/// but, once, the helpers' scratch. `scratch` holds `attention_scratch<…>()` (or `attention_backward_scratch<…>()`)
/// elements of any alignment. Buffers must not overlap.
struct attentions {
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
  static constexpr std::size_t attention_scratch() {
    return attention_core_scratch<Sequence, Sequence, HeadDim>();
  }
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
  static constexpr std::size_t attention_backward_scratch() {
    return attention_core_backward_scratch<Sequence, Sequence, HeadDim>();
  }

  /// Writes y and log_sum_exp.
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void attention(T const* qkv, T* y, accumulation_t<T>* log_sum_exp, accumulation_t<T>* scratch) {
    using A = accumulation_t<T>;
    using shape = detail::fused_attention_shape<Batch, Sequence, KvHeads, Group, HeadDim>;
    using head = detail::attention_head<T, HeadDim>;
    constexpr std::size_t bytes = attention_scratch<Batch, Sequence, KvHeads, Group, HeadDim>() * sizeof(A);
    detail::deal(Batch * KvHeads, bytes, reinterpret_cast<std::byte*>(scratch),
                 [=](std::size_t which, std::byte* memory) {
                   std::size_t const b = which / KvHeads, h = which % KvHeads;
                   A* const k = detail::aligned_scratch(reinterpret_cast<A*>(memory));
                   A* const v = k + head::packed(Sequence);
                   A* const block = v + head::packed(Sequence);
                   head::pack(qkv + shape::input(b, h, Group), shape::input_stride, Sequence, k);
                   head::pack(qkv + shape::input(b, h, Group + 1), shape::input_stride, Sequence, v);
                   for (std::size_t g = 0; g < Group; ++g)
                     detail::attend<head, T>(Sequence, Sequence, {qkv + shape::input(b, h, g), shape::input_stride}, k,
                                             v, {y + shape::output(b, h, g), shape::output_stride},
                                             log_sum_exp + shape::statistics(b, h, g), block);
                 });
  }

  /// Writes dqkv, given qkv and what forward wrote.
  template <std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim,
            class T>
  static void attention_backward(T const* qkv, T const* y, accumulation_t<T> const* log_sum_exp, T const* dy, T* dqkv,
                                 accumulation_t<T>* scratch) {
    using A = accumulation_t<T>;
    using shape = detail::fused_attention_shape<Batch, Sequence, KvHeads, Group, HeadDim>;
    using head = detail::attention_head<T, HeadDim>;
    constexpr std::size_t packed = head::packed(Sequence);
    constexpr std::size_t bytes = attention_backward_scratch<Batch, Sequence, KvHeads, Group, HeadDim>() * sizeof(A);
    detail::deal(
        Batch * KvHeads, bytes, reinterpret_cast<std::byte*>(scratch), [=](std::size_t which, std::byte* memory) {
          std::size_t const b = which / KvHeads, h = which % KvHeads;
          A* const k = detail::aligned_scratch(reinterpret_cast<A*>(memory));
          A* const v = k + packed;
          A* const dk = v + packed;
          A* const dv = dk + packed;
          A* const block = dv + packed;
          head::pack(qkv + shape::input(b, h, Group), shape::input_stride, Sequence, k);
          head::pack(qkv + shape::input(b, h, Group + 1), shape::input_stride, Sequence, v);
          std::memset(dk, 0, 2 * packed * sizeof(A));
          for (std::size_t g = 0; g < Group; ++g)
            detail::attend_backward<head, T>(Sequence, Sequence, {qkv + shape::input(b, h, g), shape::input_stride}, k,
                                             v, {y + shape::output(b, h, g), shape::output_stride},
                                             {dy + shape::output(b, h, g), shape::output_stride},
                                             log_sum_exp + shape::statistics(b, h, g),
                                             {dqkv + shape::input(b, h, g), shape::input_stride}, dk, dv, block);
          detail::unpack_rows<T>(dk, head::width, Sequence, HeadDim, head::scale(),
                                 {dqkv + shape::input(b, h, Group), shape::input_stride});
          detail::unpack_rows<T>(dv, head::width, Sequence, HeadDim, 1,
                                 {dqkv + shape::input(b, h, Group + 1), shape::input_stride});
        });
  }

  template <std::size_t Queries, std::size_t Keys, std::size_t HeadDim>
  static constexpr std::size_t attention_core_scratch() {
    using head = detail::attention_head<float, HeadDim>;  // the count is the same for double
    return 2 * head::packed(Keys) + head::forward_block + detail::scratch_slack;
  }
  template <std::size_t Queries, std::size_t Keys, std::size_t HeadDim>
  static constexpr std::size_t attention_core_backward_scratch() {
    using head = detail::attention_head<float, HeadDim>;
    return 4 * head::packed(Keys) + head::backward_block + detail::scratch_slack;
  }

  /// One head with lengths of its own: q, y [Queries, HeadDim], k, v [Keys, HeadDim], rows `*_stride` elements apart;
  /// log_sum_exp [Queries]. Causal, aligned at the END: the last query sees every key, query i the keys up to
  /// i + Keys - Queries, so with Queries > Keys the first ones see nothing.
  template <std::size_t Queries, std::size_t Keys, std::size_t HeadDim, class T>
  static void attention_core(T const* q, std::size_t q_stride, T const* k, std::size_t k_stride, T const* v,
                             std::size_t v_stride, T* y, std::size_t y_stride, accumulation_t<T>* log_sum_exp,
                             accumulation_t<T>* scratch) {
    using head = detail::attention_head<T, HeadDim>;
    using A = accumulation_t<T>;
    A* const packed_k = detail::aligned_scratch(scratch);
    A* const packed_v = packed_k + head::packed(Keys);
    head::pack(k, k_stride, Keys, packed_k);
    head::pack(v, v_stride, Keys, packed_v);
    detail::attend<head, T>(Queries, Keys, {q, q_stride}, packed_k, packed_v, {y, y_stride}, log_sum_exp,
                            packed_v + head::packed(Keys));
  }

  /// Its backward: writes dq (rows q_stride apart), dk (k_stride) and dv (v_stride); dy lies as y does.
  template <std::size_t Queries, std::size_t Keys, std::size_t HeadDim, class T>
  static void attention_core_backward(T const* q, std::size_t q_stride, T const* k, std::size_t k_stride, T const* v,
                                      std::size_t v_stride, T const* y, T const* dy, std::size_t y_stride,
                                      accumulation_t<T> const* log_sum_exp, T* dq, T* dk, T* dv,
                                      accumulation_t<T>* scratch) {
    using head = detail::attention_head<T, HeadDim>;
    using A = accumulation_t<T>;
    constexpr std::size_t packed = head::packed(Keys);
    A* const packed_k = detail::aligned_scratch(scratch);
    A* const packed_v = packed_k + packed;
    A* const packed_dk = packed_v + packed;
    A* const packed_dv = packed_dk + packed;
    head::pack(k, k_stride, Keys, packed_k);
    head::pack(v, v_stride, Keys, packed_v);
    std::memset(packed_dk, 0, 2 * packed * sizeof(A));
    detail::attend_backward<head, T>(Queries, Keys, {q, q_stride}, packed_k, packed_v, {y, y_stride}, {dy, y_stride},
                                     log_sum_exp, {dq, q_stride}, packed_dk, packed_dv, packed_dv + packed);
    detail::unpack_rows<T>(packed_dk, head::width, Keys, HeadDim, head::scale(), {dk, k_stride});
    detail::unpack_rows<T>(packed_dv, head::width, Keys, HeadDim, 1, {dv, v_stride});
  }
};

}  // namespace heddle::host
