// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>

namespace heddle {

/// A language model: declared once, without a word about parallelism.
///
/// **Minimal complete definition.** `module`, a composition that maps token ids [batch, sequence] to a loss (it begins
/// with a module that reads tokens, and its top level ends with one that is a loss); `context`, the positions of a
/// sequence; `vocabulary`, the token identities.
/// **Models.** gpt2, llama.
template <class M>
concept LanguageModel = requires {
  typename M::module;
  { M::context } -> std::convertible_to<std::size_t>;
  { M::vocabulary } -> std::convertible_to<std::size_t>;
};

}  // namespace heddle
