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
#include <type_traits>

namespace heddle {

/// Sizes and choices of a GPT-2.
struct gpt2_config {
  std::size_t vocabulary = 50257;
  std::size_t context = 1024;
  std::size_t layers = 12;
  std::size_t heads = 12;
  std::size_t width = 768;
  std::size_t mlp = 0;   ///< hidden width; 0 means 4·width
  bool biased = true;    ///< biases in linears and norms
  bool tied = true;      ///< the output head is the token embedding
  double dropout = 0;    ///< after the embeddings and at the end of each residual branch
  double stddev = 0.02;  ///< of initial weights; projections into the residual stream: / √(2·layers)
};

namespace detail {

template <gpt2_config C>
struct gpt2_parts {
  static_assert(
      C.vocabulary > 0 && C.context > 0 && C.layers > 0 && C.heads > 0 && C.width > 0,
      "gpt2<config>: 'vocabulary', 'context', 'layers', 'heads' and 'width' must be at least 1; give each a size");
  static_assert(width_fits<gpt2_config, C.width, C.heads>::value);
  static constexpr std::size_t hidden = C.mlp == 0 ? 4 * C.width : C.mlp;
  static constexpr biased bias_choice = C.biased ? biased::yes : biased::no;
  static constexpr initializer start = normal(C.stddev);
  static constexpr initializer residual_start = normal(C.stddev / square_root(2.0 * static_cast<double>(C.layers)));

  using embed_dim = dim<embed, C.width>;
  using vocab_dim = dim<vocab, C.vocabulary>;
  using sequence_dim = dim<sequence, C.context>;
  using mlp_dim = dim<mlp, hidden>;
  using heads_dim = dim<heads, C.heads>;
  using width_dim = dim<head_dim, (C.width < C.heads ? 1 : C.width / C.heads)>;  // where it is refused, nothing more
  using attention = causal_attention<sequence_dim, heads_dim, 1, width_dim>;
  using qkv_dims = dims<heads_dim, typename attention::qkv_dim, width_dim>;
  using head_dims = dims<heads_dim, typename attention::group_dim, width_dim>;
  using drop = dropout<probability{C.dropout}>;
  using norm = layer_norm<embed_dim, C.biased>;

  using attention_branch =
      sequential<named<"ln_1", norm>,
                 named<"attn", sequential<named<"qkv", linear<embed_dim, qkv_dims, bias_choice, start>>, attention,
                                          named<"proj", linear<head_dims, embed_dim, bias_choice, residual_start>>>>,
                 drop>;
  using mlp_branch =
      sequential<named<"ln_2", norm>,
                 named<"mlp", sequential<named<"fc", linear<embed_dim, mlp_dim, bias_choice, start>>, gelu,
                                         named<"proj", linear<mlp_dim, embed_dim, bias_choice, residual_start>>>>,
                 drop>;
  using block = sequential<residual<attention_branch>, residual<mlp_branch>>;
  using token_embedding =
      std::conditional_t<C.tied, embedding<vocab_dim, embed_dim, start, "wte">, embedding<vocab_dim, embed_dim, start>>;
  using head = std::conditional_t<C.tied, linear<embed_dim, vocab_dim, biased::no, start, "wte">,
                                  linear<embed_dim, vocab_dim, biased::no, start>>;

  using module =
      sequential<named<"wte", token_embedding>, named<"wpe", position_embedding<sequence_dim, embed_dim, start>>, drop,
                 named<"h", repeat<dim<layers, C.layers>, block>>, named<"ln_f", norm>, named<"lm_head", head>,
                 cross_entropy<vocab_dim>>;
};

}  // namespace detail

/// GPT-2 (Radford et al., 2019): learned positions, pre-norm blocks, GELU, a head tied to the token embedding, residual
/// projections that start smaller by √(2·layers). A composition of modules; nothing of it is known to the rest.
template <gpt2_config C>
struct gpt2 {
  static constexpr gpt2_config config = C;
  static constexpr std::size_t context = C.context;
  static constexpr std::size_t vocabulary = C.vocabulary;
  using module = typename detail::gpt2_parts<C>::module;
};

}  // namespace heddle
