// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// A row of tokens that any number of ranks may read at once: `size()` tokens with identities below `vocabulary()`, and
/// `copy(first, count, out)`, which writes tokens first … first + count − 1 and throws where they are not all there.
template <class Source>
concept TokenSource = requires(Source const& source, std::size_t first, std::size_t count, std::int32_t* out) {
  { source.size() } -> std::convertible_to<std::size_t>;
  { source.vocabulary() } -> std::convertible_to<std::size_t>;
  source.copy(first, count, out);
};

namespace detail {

/// Throws unless tokens first … first + count − 1 are among `size`.
inline void check_token_range(std::string const& name, std::size_t size, std::size_t first, std::size_t count) {
  if (first > size || count > size - first)
    throw error(joined_text({name, ": has ", size, " tokens, but ", count, " from number ", first,
                             " on were asked for; ask for fewer, or make the sampler for this source"}));
}

/// Throws unless all tokens are in [0, vocabulary). `first` is the number of tokens[0] in the source.
inline void check_tokens(std::string const& name, std::size_t vocabulary, std::int32_t const* tokens, std::size_t count,
                         std::size_t first) {
  for (std::size_t i = 0; i < count; ++i)
    if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= vocabulary)
      throw error(joined_text({name, ": token number ", first + i, " is ", tokens[i],
                               "; it must be at least 0 and less than the vocabulary, ", vocabulary,
                               "; encode the text again with this vocabulary"}));
}

}  // namespace detail

/// Tokens in memory.
class token_buffer {
 public:
  token_buffer() = default;
  /// An error where a token is not in [0, vocabulary). `name` stands in messages.
  token_buffer(std::vector<std::int32_t> tokens, std::size_t vocabulary, std::string name = "token_buffer")
      : tokens_(std::move(tokens)), vocabulary_(vocabulary), name_(std::move(name)) {
    detail::check_tokens(name_, vocabulary_, tokens_.data(), tokens_.size(), 0);
  }

  std::size_t size() const { return tokens_.size(); }
  std::size_t vocabulary() const { return vocabulary_; }
  std::vector<std::int32_t> const& tokens() const { return tokens_; }
  void copy(std::size_t first, std::size_t count, std::int32_t* out) const {
    detail::check_token_range(name_, tokens_.size(), first, count);
    for (std::size_t i = 0; i < count; ++i) out[i] = tokens_[first + i];
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::size_t vocabulary_ = 0;
  std::string name_ = "token_buffer";
};

/// Tokens first … first + size − 1 of another source, which must outlive it.
template <TokenSource Source>
class token_slice {
 public:
  token_slice(Source const& source, std::size_t first, std::size_t size)
      : source_(&source), first_(first), size_(size) {
    detail::check_token_range("token_slice", source.size(), first, size);
  }

  std::size_t size() const { return size_; }
  std::size_t vocabulary() const { return source_->vocabulary(); }
  void copy(std::size_t first, std::size_t count, std::int32_t* out) const {
    detail::check_token_range("token_slice", size_, first, count);
    source_->copy(first_ + first, count, out);
  }

 private:
  Source const* source_;
  std::size_t first_;
  std::size_t size_;
};

}  // namespace heddle
