// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/detail/math.hpp>
#include <heddle/layout/names.hpp>
#include <heddle/models/model_concepts.hpp>
#include <heddle/models/model_error.hpp>
#include <heddle/nn/activation.hpp>
#include <heddle/nn/attention.hpp>
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/dropout.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>
#include <heddle/nn/repeat.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/nn/rotary.hpp>
#include <type_traits>

namespace heddle {

/// Sizes and choices of a Llama.
struct llama_config {
  std::size_t vocabulary = 32000;
  std::size_t context = 4096;
  std::size_t layers = 32;
  std::size_t heads = 32;     ///< query heads
  std::size_t kv_heads = 32;  ///< key/value heads; `heads` is a multiple
  std::size_t width = 4096;
  std::size_t mlp = 11008;
  bool tied = false;
  double dropout = 0;  ///< after the embedding and at the end of each residual branch
  double stddev = 0.02;
  double theta = 10000;
  double norm_epsilon = 1e-5;
};

namespace detail {

template <llama_config C>
struct llama_parts {
  static_assert(C.vocabulary > 0 && C.context > 0 && C.layers > 0 && C.heads > 0 && C.kv_heads > 0 && C.width > 0 &&
                    C.mlp > 0,
                "llama<config>: 'vocabulary', 'context', 'layers', 'heads', 'kv_heads', 'width' and 'mlp' must be at "
                "least 1; give each a size");
  // Rotary positions turn a head's elements in pairs: the sizes shown leave an even number to each.
  static_assert(width_fits<llama_config, C.width, C.heads, 2 * C.heads>::value);
  static_assert(kv_heads_fit<llama_config, C.kv_heads, C.heads>::value);
  static constexpr std::size_t queries = C.heads / C.kv_heads;
  static constexpr initializer start = normal(C.stddev);
  static constexpr initializer residual_start = normal(C.stddev / square_root(2.0 * static_cast<double>(C.layers)));

  using embed_dim = dim<embed, C.width>;
  using vocab_dim = dim<vocab, C.vocabulary>;
  using sequence_dim = dim<sequence, C.context>;
  using mlp_dim = dim<mlp, C.mlp>;
  using heads_dim = dim<heads, C.kv_heads>;
  using width_dim = dim<head_dim, (C.width < C.heads ? 2 : C.width / C.heads)>;  // where it is refused, nothing more
  using attention = causal_attention<sequence_dim, heads_dim, queries, width_dim>;
  using qkv_dims = dims<heads_dim, typename attention::qkv_dim, width_dim>;
  using head_dims = dims<heads_dim, typename attention::group_dim, width_dim>;
  using drop = dropout<probability{C.dropout}>;
  using norm = rms_norm<embed_dim, epsilon{C.norm_epsilon}>;

  using attention_branch = sequential<
      named<"norm_1", norm>,
      named<"attn", sequential<named<"qkv", linear<embed_dim, qkv_dims, biased::no, start>>,
                               rotary<sequence_dim, heads_dim, queries, width_dim, rotary_base{C.theta}>, attention,
                               named<"proj", linear<head_dims, embed_dim, biased::no, residual_start>>>>,
      drop>;
  using mlp_branch = sequential<
      named<"norm_2", norm>,
      named<"mlp", sequential<named<"gate_up", linear<embed_dim, dims<gate_up_dim, mlp_dim>, biased::no, start>>,
                              swiglu<mlp_dim>, named<"down", linear<mlp_dim, embed_dim, biased::no, residual_start>>>>,
      drop>;
  using block = sequential<residual<attention_branch>, residual<mlp_branch>>;
  using token_embedding =
      std::conditional_t<C.tied, embedding<vocab_dim, embed_dim, start, "wte">, embedding<vocab_dim, embed_dim, start>>;
  using head = std::conditional_t<C.tied, linear<embed_dim, vocab_dim, biased::no, start, "wte">,
                                  linear<embed_dim, vocab_dim, biased::no, start>>;

  using module = sequential<named<"wte", token_embedding>, drop, named<"h", repeat<dim<layers, C.layers>, block>>,
                            named<"norm_f", norm>, named<"lm_head", head>, cross_entropy<vocab_dim>>;
};

}  // namespace detail

/// Llama (Touvron et al., arXiv 2302.13971, 2307.09288): rotary positions, RMS norms, SwiGLU, grouped-query heads, no
/// biases.
template <llama_config C>
struct llama {
  static constexpr llama_config config = C;
  static constexpr std::size_t context = C.context;
  static constexpr std::size_t vocabulary = C.vocabulary;
  using module = typename detail::llama_parts<C>::module;
};

}  // namespace heddle
