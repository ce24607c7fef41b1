// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle::schedules {

/// Where a stage's chunks stand in the whole model. The layers are cut into `stages * chunks` equal stretches, the
/// *virtual stages*; chunk c of stage s is stretch `c * stages + s` (the looping placement of PTD-P, arXiv 2104.04473
/// §2.2.2), so one chunk per stage is the plain pipeline. Everything that asks "first?" or "last?" asks here: the
/// answer depends on stage *and* chunk.
struct stage_position {
  std::size_t stage = 0;
  std::size_t stages = 1;
  std::size_t chunks = 1;

  [[nodiscard]] constexpr std::size_t virtual_stage(std::size_t chunk) const { return chunk * stages + stage; }
  /// Holds the first layers: its input is the data, not an activation.
  [[nodiscard]] constexpr bool is_first(std::size_t chunk = 0) const { return stage == 0 && chunk == 0; }
  /// Holds the last layers: it computes the loss.
  [[nodiscard]] constexpr bool is_last(std::size_t chunk = 0) const {
    return stage + 1 == stages && chunk + 1 == chunks;
  }
  /// The stage that takes this one's activations, and whose gradients it takes.
  [[nodiscard]] constexpr std::size_t next() const { return stage + 1 == stages ? 0 : stage + 1; }
  /// The stage that takes this one's gradients, and whose activations it takes.
  [[nodiscard]] constexpr std::size_t previous() const { return stage == 0 ? stages - 1 : stage - 1; }
  /// True where the chunk's input comes from another stage (and its gradient goes there). One stage sends nothing to
  /// itself: its chunks hand over in place.
  [[nodiscard]] constexpr bool has_peer_before(std::size_t chunk = 0) const { return stages > 1 && !is_first(chunk); }
  /// True where the chunk's output goes to another stage (and its gradient comes from there).
  [[nodiscard]] constexpr bool has_peer_after(std::size_t chunk = 0) const { return stages > 1 && !is_last(chunk); }
};

}  // namespace heddle::schedules
