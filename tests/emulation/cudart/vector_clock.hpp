// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::emulation {

/// What is known of each stream's work: everything up to a number of operations comes before. (Mattern, Virtual Time
/// and Global States of Distributed Systems, 1989.)
class vector_clock {
 public:
  [[nodiscard]] std::uint64_t of(std::size_t lane) const { return lane < time_.size() ? time_[lane] : 0; }
  std::uint64_t tick(std::size_t lane) {
    if (lane >= time_.size()) time_.resize(lane + 1);
    return ++time_[lane];
  }
  void join(vector_clock const& other) {
    if (time_.size() < other.time_.size()) time_.resize(other.time_.size());
    for (std::size_t i = 0; i < other.time_.size(); ++i) time_[i] = std::max(time_[i], other.time_[i]);
  }

 private:
  std::vector<std::uint64_t> time_;
};

}  // namespace heddle::emulation
