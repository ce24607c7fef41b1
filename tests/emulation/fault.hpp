// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace heddle::emulation {

/// What a kernel did that a device would not forgive.
struct fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A line of a kernel. As a default argument `place::here()` is the caller's. (clang 14 has no std::source_location.)
struct place {
  char const* file = "";
  unsigned line = 0;
  static constexpr place here(char const* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  friend bool operator==(place const& a, place const& b) {
    return a.line == b.line && std::string_view(a.file) == b.file;
  }
};

/// "norm.cuh:41"
[[nodiscard]] inline std::string text_of(place const& at) {
  std::string_view const file = at.file;
  return std::string(file.substr(file.rfind('/') + 1)) + ':' + std::to_string(at.line);
}

}  // namespace heddle::emulation
