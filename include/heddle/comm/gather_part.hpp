// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

namespace heddle::comm {

/// One of several all-gathers that are made together: `in` is this rank's chunk of `out`, and may be that part of it.
template <class T>
struct gather_part {
  std::span<T const> in{};
  std::span<T> out{};
};

}  // namespace heddle::comm
