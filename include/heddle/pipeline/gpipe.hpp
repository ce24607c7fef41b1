// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include <heddle/pipeline/schedule_concepts.hpp>

namespace heddle {

/// All forwards, then all backwards in reverse order (GPipe: Huang et al., arXiv 1811.06965 §2.3). The simplest
/// schedule, and the one that keeps the activations of all micro-batches: peak in flight is the number of micro-batches
/// on every stage. Bubble (p-1)/(m+p-1) of total time.
struct gpipe {
  static constexpr void order(std::size_t, std::size_t, std::size_t micro_batches, schedules::compute_order& out) {
    for (std::size_t m = 0; m < micro_batches; ++m) out.forward(m);
    for (std::size_t m = micro_batches; m-- > 0;) out.backward(m);
  }
};

}  // namespace heddle
