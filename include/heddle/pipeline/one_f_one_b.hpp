// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include <heddle/pipeline/schedule_concepts.hpp>

namespace heddle {

/// One forward, one backward (PipeDream-Flush: Narayanan et al., arXiv 1806.03377 §3.2, arXiv 2006.09503 §3.2, arXiv
/// 2104.04473 §2.2.1). Stage s of p first runs p-1-s forwards, then alternates, then drains; one weight version, as all
/// gradients are reduced before the step. Same bubble as GPipe, but no more than p-s micro-batches are in flight.
///
/// The warm-up is bounded by the number of micro-batches, so fewer micro-batches than stages is legal.
struct one_f_one_b {
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                              schedules::compute_order& out) {
    std::size_t const after = stages - 1 - stage;
    std::size_t const warm_up = after < micro_batches ? after : micro_batches;
    for (std::size_t m = 0; m < warm_up; ++m) out.forward(m);
    for (std::size_t m = warm_up; m < micro_batches; ++m) {
      out.forward(m);
      out.backward(m - warm_up);
    }
    for (std::size_t m = micro_batches - warm_up; m < micro_batches; ++m) out.backward(m);
  }
};

}  // namespace heddle
