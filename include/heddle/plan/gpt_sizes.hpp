// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace heddle {

/// A GPT in the letters of arXiv 2104.04473: l layers, width h, vocabulary V, sequence s; feed-forward width 4h.
struct gpt_sizes {
  std::uint64_t layers = 0;
  std::uint64_t width = 0;
  std::uint64_t vocabulary = 0;
  std::uint64_t sequence = 0;
};

/// Parameters: 12lh² (1 + 13/12h + (V + s)/12lh) (arXiv 2104.04473 eq. 2), which leaves out the last norm's 2h.
[[nodiscard]] constexpr std::uint64_t gpt_parameters(gpt_sizes const& g) {
  return 12 * g.layers * g.width * g.width + 13 * g.layers * g.width + (g.vocabulary + g.sequence) * g.width;
}

}  // namespace heddle
