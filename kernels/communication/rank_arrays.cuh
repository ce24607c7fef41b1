// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace heddle::kernels {

/// Ranks that share a device, at most: what kernels take of them are arrays by value.
inline constexpr int most_ranks = 64;

/// An array of each of several ranks.
template <class T>
struct rank_arrays {
  T* of[most_ranks];
};

}  // namespace heddle::kernels
