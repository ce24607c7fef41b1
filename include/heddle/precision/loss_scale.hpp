// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

namespace heddle {

/// How the loss is scaled, so that small gradients are numbers of the storage format and not zeros (Micikevicius et
/// al., arXiv 1710.03740 §3.2): the gradient of the loss begins at `scale` instead of 1, and the update divides by it.
///
/// The scale is as large as overflow allows: a step whose gradients are not finite is skipped and multiplies it by
/// `backoff`; `interval` steps in a row that are not multiply it by `growth`. Factors are powers of two, so that
/// scaling changes no digit of what neither overflows nor vanishes.
struct loss_scale_policy {
  double initial = 1;          ///< the first scale
  double growth = 1;           ///< 1 for a scale that does not grow
  double backoff = 1;          ///< 1 for one that does not shrink
  std::size_t interval = 1;    ///< finite steps in a row before it grows
  std::size_t hysteresis = 1;  ///< overflows before it shrinks; they are counted anew when it grows
  double least = 1;            ///< a step that overflows at this scale is an error
  double most = 1;
  friend constexpr bool operator==(loss_scale_policy const&, loss_scale_policy const&) = default;

  /// Whether an overflow is met by a smaller scale; else it is an error.
  [[nodiscard]] constexpr bool adapts() const { return backoff != 1; }
};
inline constexpr loss_scale_policy no_loss_scale{};
/// From 65536 down, and up by 2 after 2000 finite steps.
inline constexpr loss_scale_policy dynamic_loss_scale{
    .initial = 65536, .growth = 2, .backoff = 0.5, .interval = 2000, .most = 16777216};

/// The state of a loss scale: part of a trainer's. All ranks have the same, since they agree on what overflowed.
struct loss_scale_state {
  double scale = 1;
  std::uint64_t finite_steps = 0;  ///< in a row, since the scale last changed or a step was skipped
  std::uint64_t overflows = 0;     ///< since the scale last grew, or would have but for `most`: what hysteresis counts
  std::uint64_t skipped = 0;       ///< steps in all
  friend constexpr bool operator==(loss_scale_state const&, loss_scale_state const&) = default;
};
[[nodiscard]] constexpr loss_scale_state first_state(loss_scale_policy const& p) { return {.scale = p.initial}; }

/// The state after a step, given whether it overflowed; whoever asks has skipped it then.
[[nodiscard]] constexpr loss_scale_state after_step(loss_scale_policy const& p, loss_scale_state s, bool overflowed) {
  if (overflowed) {
    s.finite_steps = 0;
    ++s.skipped;
    if (++s.overflows >= p.hysteresis) s.scale = s.scale * p.backoff < p.least ? p.least : s.scale * p.backoff;
  } else if (++s.finite_steps >= p.interval) {
    s.finite_steps = 0;
    s.overflows = 0;
    s.scale = s.scale * p.growth > p.most ? p.most : s.scale * p.growth;
  }
  return s;
}

}  // namespace heddle
