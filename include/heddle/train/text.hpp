// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/detail/file.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/train/token_source.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

/// The bytes of one or several files, one after another.
inline std::string read_text(std::span<std::string const> paths) {
  std::string text;
  for (auto const& path : paths) {
    auto const in = detail::file::open_to_read(path);
    std::size_t const before = text.size();
    text.resize(before + static_cast<std::size_t>(in.size()));
    in.read_at(0, text.data() + before, static_cast<std::size_t>(in.size()));
  }
  return text;
}
inline std::string read_text(std::string const& path) { return read_text({&path, 1}); }

/// Every byte a token: a vocabulary of 256.
inline token_buffer byte_tokens(std::string_view text) {
  std::vector<std::int32_t> tokens(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) tokens[i] = static_cast<unsigned char>(text[i]);
  return {std::move(tokens), 256, "byte_tokens"};
}

/// The different bytes of a text in ascending order, each a token: nanoGPT's `shakespeare_char` (65 tokens there).
class character_vocabulary {
 public:
  /// The vocabulary of `text`; an error where it is empty.
  explicit character_vocabulary(std::string_view text) {
    if (text.empty()) throw error("character_vocabulary: the text is empty; give the text that is to be encoded");
    std::array<bool, 256> seen{};
    for (char c : text) seen[static_cast<unsigned char>(c)] = true;
    token_of_.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      if (!seen[byte]) continue;
      token_of_[byte] = static_cast<std::int32_t>(bytes_.size());
      bytes_ += static_cast<char>(static_cast<unsigned char>(byte));
    }
  }

  std::size_t size() const { return bytes_.size(); }

  /// The bytes, ascending: the vocabulary of these bytes is this vocabulary, so they are what to store.
  std::string const& bytes() const { return bytes_; }

  /// An error where the text has a byte that the vocabulary has not.
  token_buffer encode(std::string_view text) const {
    std::vector<std::int32_t> tokens(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
      auto const byte = static_cast<unsigned char>(text[i]);
      tokens[i] = token_of_[byte];
      if (tokens[i] < 0)
        throw error(detail::joined_text({"character_vocabulary: byte ", byte, " at position ", i, " is not among the ",
                                         size(), " of the vocabulary; make the vocabulary from a text that has it"}));
    }
    return {std::move(tokens), size(), "character_vocabulary"};
  }

  /// An error where a token is not in [0, size()).
  std::string decode(std::span<std::int32_t const> tokens) const {
    detail::check_tokens("character_vocabulary", size(), tokens.data(), tokens.size(), 0);
    std::string text(tokens.size(), '\0');
    for (std::size_t i = 0; i < tokens.size(); ++i) text[i] = bytes_[static_cast<std::size_t>(tokens[i])];
    return text;
  }

 private:
  std::string bytes_;
  std::array<std::int32_t, 256> token_of_{};
};

}  // namespace heddle
