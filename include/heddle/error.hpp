// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

namespace heddle {

/// Base of every exception that heddle throws: what could not be known at compile time and cannot be met.
/// The text names the thing, the offending value and the remedy.
class error : public std::runtime_error {
 public:
  // Not inlined: a program has as many of these as rules that can be broken.
  [[gnu::cold, gnu::noinline]] explicit error(std::string const& text) : std::runtime_error(text) {}
  [[gnu::cold, gnu::noinline]] explicit error(char const* text) : std::runtime_error(text) {}
};

}  // namespace heddle
