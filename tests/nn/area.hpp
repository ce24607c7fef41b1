// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace heddle::testing {

/// Memory whose wrong use shows: it holds NaN until something is written, and words behind its end that must survive.
class area {
 public:
  explicit area(std::size_t elements) : elements_(elements), memory_(elements + guards, guard) { poison(); }

  [[nodiscard]] double* data() { return memory_.data(); }
  [[nodiscard]] double const* data() const { return memory_.data(); }
  [[nodiscard]] std::size_t size() const { return elements_; }
  void poison() { fill(std::numeric_limits<double>::quiet_NaN()); }
  void fill(double value) {
    for (std::size_t i = 0; i < elements_; ++i) memory_[i] = value;
  }
  [[nodiscard]] bool intact() const {
    for (std::size_t i = elements_; i < memory_.size(); ++i)
      if (memory_[i] != guard) return false;
    return true;
  }

 private:
  static constexpr std::size_t guards = 16;
  static constexpr double guard = -0x1.23456789abcdep+300;
  std::size_t elements_;
  std::vector<double> memory_;
};

}  // namespace heddle::testing
