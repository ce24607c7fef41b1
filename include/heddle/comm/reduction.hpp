// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace heddle::comm {

/// How the values of the ranks are joined. A NaN on any rank makes `max` and `min` NaN, so that no rank hides it.
/// Sums of integers wrap around.
enum class reduction : std::uint8_t { sum, max, min };

/// The name used in messages and traces.
[[nodiscard]] constexpr char const* name_of(reduction how) {
  switch (how) {
    case reduction::sum:
      return "sum";
    case reduction::max:
      return "max";
    case reduction::min:
      return "min";
  }
  return "unknown";
}

}  // namespace heddle::comm
