// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/redistribution.hpp>

namespace heddle {

/// Elements of scratch that `local_targets` needs for `Rows` tokens.
template <class Place, std::size_t Rows>
inline constexpr std::size_t target_slots = Place::token_path.empty()
                                                ? 0
                                                : ((Rows + redistribution_scratch(Place::mesh, Place::token_path)) *
                                                       sizeof(std::int32_t) +
                                                   sizeof(typename Place::element) - 1) /
                                                      sizeof(typename Place::element);

/// The targets of an op's tokens: a slice where the op splits the sequence, gathered where it holds more of the batch
/// than this rank was given. `room` is of `target_slots` elements. **Moves** what `Place::token_path` says.
template <class Place, std::size_t Rows, class Context>
std::int32_t const* local_targets(Context& c, typename Place::element* room) {
  if constexpr (Place::token_path.empty()) {
    return c.targets();
  } else {
    auto* const mine = reinterpret_cast<std::int32_t*>(room);
    c.redistribute(Place::token_path, c.targets(), mine, mine + Rows);
    return mine;
  }
}

}  // namespace heddle
