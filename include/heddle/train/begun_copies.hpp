// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <heddle/plan/parameter_table.hpp>
#include <vector>

namespace heddle {

/// Of each copy of a stage's parameters, whether something of this step stands in its gradient. What comes first
/// replaces what stands there, so that nobody clears gradients; what comes later is added.
class begun_copies {
 public:
  explicit begun_copies(parameter_table const& parameters) : first_(parameters.entry.size()) {
    std::size_t copies = 0;
    for (std::size_t n = 0; n < parameters.entry.size(); ++n) {
      first_[n] = copies;
      copies += parameters.entry[n].copies;
    }
    begun_ = std::vector<bool>(copies);
  }

  /// Before the first gradient of a step.
  void clear() { std::fill(begun_.begin(), begun_.end(), false); }
  /// Whether copy `copy` of entry n had begun; from now on it has.
  bool begin(std::size_t n, std::size_t copy) {
    bool const had = begun_[first_[n] + copy];
    begun_[first_[n] + copy] = true;
    return had;
  }

 private:
  std::vector<std::size_t> first_;  ///< copy of each entry, in `begun_`
  std::vector<bool> begun_;
};

}  // namespace heddle
