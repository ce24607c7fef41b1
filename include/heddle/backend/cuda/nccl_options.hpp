// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>

namespace heddle::cuda {

/// How a run of ranks over NCCL is watched, and how it adds.
struct nccl_options {
  /// An operation that has not ended this long after the work that its rank gave to the device before it ends the run
  /// with `comm::operation_timeout`, as does one whose ranks have not met for this long, and a rank that has not
  /// returned this long after another. Longer than what the slowest rank does between two operations, or after the last
  /// one.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
  /// How long ranks wait for each other at the start, and for each other's messages.
  std::chrono::milliseconds start = std::chrono::minutes(2);
  /// Whether sums of 16-bit floats may be NCCL's, which rounds them on their way from rank to rank. Otherwise they are
  /// added in `float` and rounded once; each rank then sends its parts to all others, not along a ring: as fast where
  /// every device reaches every other, and slower over a network.
  bool sums_of_16_bits_round_on_the_way = false;
  /// Bytes of device memory that each group takes when it is made, beside what the ledger has: reductions that are not
  /// NCCL's (see `nccl_communicator`) go through it, in as many pieces as they need. At least 16 for each rank; a group
  /// of one rank takes 16.
  std::size_t room = std::size_t{4} << 20;
};

}  // namespace heddle::cuda
