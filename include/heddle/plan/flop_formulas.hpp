// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <heddle/plan/flops.hpp>
#include <heddle/plan/gpt_sizes.hpp>

namespace heddle {

// The closed forms that papers and other programs count with, to compare with them. `flops_per_sequence`
// (plan/flops.hpp) counts a model itself, and equals the first group for every gpt2<…> of mlp = 4·width.

/// Operations of one forward on one sequence: 24sh² + 4s²h for each layer and 2shV for the logits (arXiv 2104.04473,
/// appendix).
[[nodiscard]] constexpr forward_flops gpt_forward_flops(gpt_sizes const& g) {
  return {{g.layers * 24 * g.sequence * g.width * g.width, g.layers * 4 * g.sequence * g.sequence * g.width},
          {2 * g.sequence * g.width * g.vocabulary, 0}};
}

/// Operations of forward and backward on one sequence; a step's are the global batch B times as many.
///   nothing recomputed: 72lsh² (1 + s/6h + V/12lh)   (arXiv 2205.05198 eq. 7)
///   layers recomputed:  96lsh² (1 + s/6h + V/16lh)   (arXiv 2104.04473 eq. 3)
[[nodiscard]] constexpr std::uint64_t gpt_training_flops(gpt_sizes const& g, recomputed again = recomputed::nothing) {
  return training_flops(gpt_forward_flops(g), again);
}

/// The hardware FLOPs that arXiv 2205.05198 eq. 8 states for selective recomputation, of one sequence:
/// 72lsh² (1 + s/3h + V/12lh). It adds 12s²h for each layer, three times what another forward of attention's two
/// products comes to (4s²h, `recomputed::attention`); the paper's hardware utilisations are with this one.
[[nodiscard]] constexpr std::uint64_t selective_hardware_flops(gpt_sizes const& g) {
  return gpt_training_flops(g) + g.layers * 12 * g.sequence * g.sequence * g.width;
}

/// 6ND: model FLOPs of `tokens` tokens, of a model with many more parameters than positions; 2N forward and 4N backward
/// (Kaplan et al., arXiv 2001.08361 §2.1; Brown et al., arXiv 2005.14165 appendix D).
[[nodiscard]] constexpr double dense_training_flops(double parameters, double tokens) {
  return 6 * parameters * tokens;
}

/// Model FLOPs of one token: 6N + 12LHQT, where heads times head width HQ is the model's width (Chowdhery et al., PaLM,
/// arXiv 2204.02311 appendix B). nanoGPT takes N without the positions.
[[nodiscard]] constexpr double palm_flops_per_token(gpt_sizes const& g, double parameters) {
  return 6 * parameters + 12 * static_cast<double>(g.layers * g.width * g.sequence);
}

/// The same with the half of attention's square that a causal mask leaves: 6N + 6LCT, as llm.c counts (train_gpt2.cu).
[[nodiscard]] constexpr double causal_flops_per_token(gpt_sizes const& g, double parameters) {
  return 6 * parameters + 6 * static_cast<double>(g.layers * g.width * g.sequence);
}

}  // namespace heddle
