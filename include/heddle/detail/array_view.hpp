// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle::detail {

/// Where a constant array is, and how long: std::span without the hundred and thirty instantiations that each of its
/// element types costs.
template <class T>
struct array_view {
  T const* first = nullptr;
  std::size_t count = 0;

  [[nodiscard]] constexpr std::size_t size() const { return count; }
  [[nodiscard]] constexpr T const& operator[](std::size_t i) const { return first[i]; }
  [[nodiscard]] constexpr T const* begin() const { return first; }
  [[nodiscard]] constexpr T const* end() const { return first + count; }
};

}  // namespace heddle::detail
