// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <charconv>
#include <string>

namespace heddle::detail {

/// Shortest text that reads back as the same double, with a point whatever the locale. What is not a number has no
/// sign.
inline std::string number_text(double value) {
  if (value != value) return "nan";
  char digits[32];
  auto const end = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end.ptr};
}

}  // namespace heddle::detail
