// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/error.hpp>
#include <span>
#include <string>

namespace heddle {

/// Steps that `micro_batches` make when each takes `window` of them; a last, shorter one counts.
constexpr std::size_t accumulation_steps(std::size_t micro_batches, std::size_t window) {
  if (window == 0) throw error("accumulation_steps: 'window' is 0; it must be at least 1");
  return micro_batches / window + (micro_batches % window != 0 ? 1 : 0);
}

/// Micro-batches of step `step`: what its sum is to be divided by. It is less than `window` in a last, shorter step.
constexpr std::size_t accumulation_size(std::size_t micro_batches, std::size_t window, std::size_t step) {
  std::size_t const steps = accumulation_steps(micro_batches, window);
  if (step >= steps)
    throw error("accumulation_size: there is no step " + std::to_string(step) + "; " + std::to_string(micro_batches) +
                " micro-batches in windows of " + std::to_string(window) + " make " + std::to_string(steps));
  return step + 1 < steps ? window : micro_batches - step * window;
}

/// What to do when ranks that read sources of their own have different numbers of batches.
enum class unequal_batches {
  refuse,      ///< an error on every rank, with the counts
  stop_early,  ///< all ranks stop after the least count; the others leave batches unread
};

/// The number of batches that all ranks take, given the count of each (gathered, so that every rank passes the same
/// counts and comes to the same answer before the first step; no rank then waits for another that has stopped).
/// Ranks that sample one source need no agreement: batches_per_epoch gives all the same count.
inline std::size_t agreed_batches(std::span<std::size_t const> counts,
                                  unequal_batches policy = unequal_batches::refuse) {
  if (counts.empty()) throw error("agreed_batches: no counts; pass the count of every rank");
  std::size_t least = 0, most = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    if (counts[rank] < counts[least]) least = rank;
    if (counts[rank] > counts[most]) most = rank;
  }
  if (policy == unequal_batches::refuse && counts[least] != counts[most])
    throw error("agreed_batches: rank " + std::to_string(most) + " has " + std::to_string(counts[most]) +
                " batches but rank " + std::to_string(least) + " has " + std::to_string(counts[least]) +
                "; give all ranks as many, or choose unequal_batches::stop_early");
  return counts[least];
}

}  // namespace heddle
