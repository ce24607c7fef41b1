// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string_view>

/// What the examples learn: a nursery rhyme that repeats itself, so that a small model gets somewhere in seconds.
inline constexpr std::string_view rhyme =
    "this is the house that jack built\n"
    "this is the malt that lay in the house that jack built\n"
    "this is the rat that ate the malt that lay in the house that jack built\n"
    "this is the cat that killed the rat that ate the malt that lay in the house that jack built\n"
    "this is the dog that worried the cat that killed the rat that ate the malt that lay in the house that jack built\n"
    "this is the cow with the crumpled horn that tossed the dog that worried the cat that killed the rat that ate the "
    "malt that lay in the house that jack built\n"
    "this is the maiden all forlorn that milked the cow with the crumpled horn that tossed the dog that worried the "
    "cat that killed the rat that ate the malt that lay in the house that jack built\n"
    "this is the man all tattered and torn that kissed the maiden all forlorn that milked the cow with the crumpled "
    "horn that tossed the dog that worried the cat that killed the rat that ate the malt that lay in the house that "
    "jack built\n"
    "this is the priest all shaven and shorn that married the man all tattered and torn that kissed the maiden all "
    "forlorn that milked the cow with the crumpled horn that tossed the dog that worried the cat that killed the rat "
    "that ate the malt that lay in the house that jack built\n";

/// How many different characters it has.
inline constexpr std::size_t alphabet_size = [] {
  std::size_t n = 0;
  for (std::size_t i = 0; i < rhyme.size(); ++i) n += rhyme.find(rhyme[i]) == i ? 1 : 0;
  return n;
}();
