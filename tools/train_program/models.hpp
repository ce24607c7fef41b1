// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <string_view>

// The models of tools/train. `name` is what --model takes: the type's name with '-' for '_'. A model whose `characters`
// is true numbers the different characters of its text, which must be as many as its vocabulary; the others take every
// byte as a token.
namespace models {

/// nanoGPT's small shape for a CPU, on bytes.
struct tiny : heddle::gpt2<heddle::gpt2_config{
                  .vocabulary = 256, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = false}> {
  static constexpr std::string_view name = "tiny";
  static constexpr bool characters = false;
};

/// The same on the 65 characters of tinyshakespeare: the set-up for which nanoGPT publishes a validation loss.
struct shakespeare_char
    : heddle::gpt2<heddle::gpt2_config{
          .vocabulary = 65, .context = 64, .layers = 4, .heads = 4, .width = 128, .biased = false}> {
  static constexpr std::string_view name = "shakespeare-char";
  static constexpr bool characters = true;
};

/// GPT-2, the smallest of the published ones.
struct gpt2_124m : heddle::gpt2<heddle::gpt2_config{}> {
  static constexpr std::string_view name = "gpt2-124m";
  static constexpr bool characters = false;
};

/// A small Llama whose eight query heads share four key/value heads.
struct llama_tiny
    : heddle::llama<heddle::llama_config{
          .vocabulary = 256, .context = 64, .layers = 4, .heads = 8, .kv_heads = 4, .width = 128, .mlp = 352}> {
  static constexpr std::string_view name = "llama-tiny";
  static constexpr bool characters = false;
};

}  // namespace models
