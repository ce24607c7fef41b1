// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/detail/host_device.hpp>

#include <cstdint>

namespace heddle {

/// The row of a table that holds ids `first`..`first + rows - 1`, or `rows` if it does not hold `id`.
[[nodiscard]] HEDDLE_HOST_DEVICE constexpr std::int64_t table_row(std::int32_t id, std::int64_t first,
                                                                  std::int64_t rows) {
  std::int64_t const row = std::int64_t{id} - first;
  return row >= 0 && row < rows ? row : rows;
}

}  // namespace heddle
