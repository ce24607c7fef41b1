// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <support/device.cuh>

namespace heddle::kernels {

/// The row of a table that holds ids `first`..`first + rows - 1`, or `rows` if it does not hold `id`.
__device__ inline long long table_row(std::int32_t id, long long first, long long rows) {
  long long const row = static_cast<long long>(id) - first;
  return row >= 0 && row < rows ? row : rows;
}

}  // namespace heddle::kernels
