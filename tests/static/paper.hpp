// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/plan/gpt_sizes.hpp>

#include "counting.hpp"

namespace heddle::testing {

constexpr bool within(double value, double printed, double absolute) {
  double const off = value - printed;
  return (off < 0 ? -off : off) <= absolute;
}
constexpr bool within_share(double value, double printed, double share) {
  return within(value, printed, share * printed);
}
constexpr double millions(std::size_t n) { return static_cast<double>(n) / 1e6; }
constexpr double billions(std::size_t n) { return static_cast<double>(n) / 1e9; }

/// A GPT-2 of these sizes with the papers' defaults: biases, tied head, mlp 4·width.
template <std::size_t Layers, std::size_t Width, std::size_t Heads, std::size_t Vocabulary, std::size_t Context>
using gpt =
    gpt2<gpt2_config{.vocabulary = Vocabulary, .context = Context, .layers = Layers, .heads = Heads, .width = Width}>;

/// The same sizes in the letters of the closed forms.
template <std::size_t Layers, std::size_t Width, std::size_t Vocabulary, std::size_t Context>
inline constexpr gpt_sizes letters{.layers = Layers, .width = Width, .vocabulary = Vocabulary, .sequence = Context};

}  // namespace heddle::testing
