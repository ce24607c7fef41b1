// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/tensor/table_row.hpp>
#include <string>

/// What primitives demand of their arguments on every backend. The arrays are the host's.
namespace heddle {

/// Throws heddle::error unless each of the n ids is in 0..vocabulary-1, where `vocabulary` is the whole, unpadded
/// one: to be asked once per batch, since `embedding` takes an id that nobody holds for one that another rank holds.
inline void check_tokens(std::int32_t const* tokens, std::size_t n, std::size_t vocabulary) {
  auto const rows = static_cast<std::int64_t>(vocabulary);
  for (std::size_t i = 0; i < n; ++i)
    if (table_row(tokens[i], 0, rows) == rows)
      throw error(
          detail::joined_text({"embedding: token ", tokens[i], " at position ", i, " must be an id in 0..",
                               vocabulary - 1, "; tokenize with the model's vocabulary, or enlarge the model's"}));
}

/// Throws heddle::error unless each of the n targets is in 0..vocabulary-1 (the whole, unpadded vocabulary) or
/// `ignore_index`: to be asked once per batch, since a target that no rank holds would silently count as logit 0.
inline void check_targets(std::int32_t const* targets, std::size_t n, std::size_t vocabulary,
                          std::int32_t ignore_index) {
  auto const rows = static_cast<std::int64_t>(vocabulary);
  for (std::size_t i = 0; i < n; ++i)
    if (targets[i] != ignore_index && table_row(targets[i], 0, rows) == rows)
      throw error(detail::joined_text({"cross_entropy: target ", targets[i], " at position ", i,
                                       " must be an id in 0..", vocabulary - 1, " or the ignore index ", ignore_index,
                                       "; tokenize with the model's vocabulary, or enlarge the model's"}));
}

/// Throws heddle::error unless p is in [0, 1).
inline void check_dropout_probability(double p) {
  if (!(p >= 0.0 && p < 1.0))
    throw error(detail::joined_text({"dropout: the probability must be in [0, 1), and is ", std::to_string(p),
                                     "; give the share of elements to drop, 0 for none"}));
}

}  // namespace heddle
