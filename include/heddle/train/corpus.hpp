// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/train/token_source.hpp>
#include <string>

namespace heddle {

/// Tokens of the training part: the first `fraction`, rounded down as nanoGPT's `int(n * 0.9)` does. Of
/// tinyshakespeare's 1,115,394 bytes 1,003,854 are for training and 111,540 for validation.
constexpr std::size_t training_tokens(std::size_t tokens, double fraction = 0.9) {
  if (!(fraction >= 0 && fraction <= 1))
    throw error(
        detail::joined_text({"training_tokens: 'fraction' is ", std::to_string(fraction), "; it must be from 0 to 1"}));
  auto const part = static_cast<std::size_t>(static_cast<double>(tokens) * fraction);
  return part < tokens ? part : tokens;
}

/// A source cut in two: the first part to train on, the rest for validation. The source must outlive it.
template <TokenSource Source>
struct corpus {
  token_slice<Source> training;
  token_slice<Source> validation;

  explicit corpus(Source const& source, double fraction = 0.9)
      : training(source, 0, training_tokens(source.size(), fraction)),
        validation(source, training.size(), source.size() - training.size()) {}
};

}  // namespace heddle
