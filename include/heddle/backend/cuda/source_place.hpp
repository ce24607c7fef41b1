// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <string_view>

namespace heddle::cuda {

/// A place in a program, for the text of errors: as the default argument of a function, where that is called. It is
/// std::source_location, which clang 14 lacks.
struct source_place {
  char const* file = "";
  int line = 0;

  [[nodiscard]] static constexpr source_place here(char const* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
  /// " (called at memory.hpp:50)"
  [[nodiscard]] std::string text() const {
    std::string_view const path = file;
    return " (called at " + std::string(path.substr(path.find_last_of("/\\") + 1)) + ':' + std::to_string(line) + ')';
  }
};

}  // namespace heddle::cuda
