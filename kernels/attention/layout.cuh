// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <support/vector.cuh>

/// What the kernels of attention are given: sizes, and where the rows of their operands lie.
namespace heddle::kernels {

/// Query head g of key-value head h attends from `queries` tokens to `keys` tokens: query i sees the keys up to
/// i + shift. Causal attention of a sequence to itself has shift 0; aligned at the end, as `host::attention_core` is,
/// keys - queries; a block of queries that begins at token a, against one of keys that begins at token b, a - b.
/// Statistics (log_sum_exp and the like) are [batch, kv_heads, group, queries].
struct attention_shape {
  int queries, keys, kv_heads, group, shift;
};

/// An operand of which row `token` of head (batch, head, group) begins at
/// data + batch·of_batch + head·of_head + group·of_group + token·of_token.
template <class T>
struct attention_rows {
  T* data;
  long long of_batch, of_head, of_group, of_token;
};

/// The rows of one head.
template <class T>
struct head_rows {
  T* data;
  long long stride;
  bool whole;  ///< they consist of packs
};
template <int HeadDim, class T>
__device__ head_rows<T> rows_of_head(attention_rows<T> const& all, int batch, int head, int group) {
  T* const data = all.data + batch * all.of_batch + head * all.of_head + group * all.of_group;
  return {data, all.of_token,
          HeadDim % pack_width<T> == 0 && all.of_token % pack_width<T> == 0 && aligned_for_packs(data)};
}

/// The parts of qkv[batch, sequence, kv_heads, group + 2, HeadDim], or of its gradient, and
/// y[batch, sequence, kv_heads, group, HeadDim], or its gradient: the layouts of `host::attention`.
template <class T>
struct fused_attention_rows {
  attention_rows<T> queries, keys, values;
};
template <int HeadDim, class T>
constexpr fused_attention_rows<T> fused_rows(T* qkv, int sequence, int kv_heads, int group) {
  long long const slots = static_cast<long long>(group + 2) * HeadDim, token = slots * kv_heads;
  attention_rows<T> const first{qkv, token * sequence, slots, HeadDim, token};
  attention_rows<T> keys = first, values = first;
  keys.data += static_cast<std::ptrdiff_t>(group) * HeadDim;
  values.data += static_cast<std::ptrdiff_t>(group + 1) * HeadDim;
  keys.of_group = values.of_group = 0;
  return {first, keys, values};
}
template <int HeadDim, class T>
constexpr attention_rows<T> output_rows(T* y, int sequence, int kv_heads, int group) {
  long long const slots = static_cast<long long>(group) * HeadDim, token = slots * kv_heads;
  return {y, token * sequence, slots, HeadDim, token};
}

/// A head of a grid whose blockIdx.x counts heads.
struct attention_head {
  int batch, head, group;
  /// Of batch · kv_heads · group query heads, or of batch · kv_heads key-value heads.
  __device__ static attention_head of_queries(attention_shape const& shape) {
    int const at = static_cast<int>(blockIdx.x), rest = at / shape.group;
    return {rest / shape.kv_heads, rest % shape.kv_heads, at % shape.group};
  }
  __device__ static attention_head of_keys(attention_shape const& shape) {
    int const at = static_cast<int>(blockIdx.x);
    return {at / shape.kv_heads, at % shape.kv_heads, 0};
  }
  /// Where the statistics of this head begin.
  __device__ long long statistics(attention_shape const& shape) const {
    return ((static_cast<long long>(batch) * shape.kv_heads + head) * shape.group + group) * shape.queries;
  }
};

/// Keys, from 0 on, that the queries up to `query` see some of.
__device__ inline int keys_seen(attention_shape const& shape, int query) {
  int const seen = query + shape.shift + 1;
  return seen < 0 ? 0 : seen < shape.keys ? seen : shape.keys;
}
/// Whether query and key both exist, and it sees it.
__device__ inline bool sees(attention_shape const& shape, int query, int key) {
  return key <= query + shape.shift && key < shape.keys && query < shape.queries;
}

}  // namespace heddle::kernels
