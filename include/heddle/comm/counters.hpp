// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include <heddle/comm/operation.hpp>

namespace heddle::comm {

/// What one rank did in one communicator with one operation: how often it called, and what other ranks then read from
/// its buffers. The elements equal the functions of comm/traffic.hpp.
struct operation_counter {
  std::uint64_t calls = 0;
  std::uint64_t elements_sent = 0;
  std::uint64_t bytes_sent = 0;

  [[nodiscard]] friend constexpr bool operator==(operation_counter const&, operation_counter const&) = default;
};

/// A snapshot of the counters of one rank in one communicator. The difference of two snapshots is the traffic between.
struct communication_counters {
  std::array<operation_counter, operation_count> of{};

  [[nodiscard]] constexpr operation_counter const& operator[](operation op) const {
    return of[static_cast<std::size_t>(op)];
  }
  [[nodiscard]] constexpr operation_counter& operator[](operation op) { return of[static_cast<std::size_t>(op)]; }

  [[nodiscard]] constexpr operation_counter total() const {
    operation_counter sum;
    for (operation_counter const& one : of) {
      sum.calls += one.calls;
      sum.elements_sent += one.elements_sent;
      sum.bytes_sent += one.bytes_sent;
    }
    return sum;
  }

  [[nodiscard]] friend constexpr communication_counters operator-(communication_counters later,
                                                                  communication_counters const& earlier) {
    for (std::size_t k = 0; k < operation_count; ++k) {
      later.of[k].calls -= earlier.of[k].calls;
      later.of[k].elements_sent -= earlier.of[k].elements_sent;
      later.of[k].bytes_sent -= earlier.of[k].bytes_sent;
    }
    return later;
  }
  [[nodiscard]] friend constexpr bool operator==(communication_counters const&,
                                                 communication_counters const&) = default;
};

}  // namespace heddle::comm
