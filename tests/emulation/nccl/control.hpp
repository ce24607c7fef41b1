// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nccl.h>

#include <cstddef>

namespace heddle::emulation {

/// Communicators that were made, and neither destroyed nor aborted.
[[nodiscard]] std::size_t nccl_communicators();
/// Those that were aborted since `reset_nccl`.
[[nodiscard]] std::size_t nccl_aborted();
/// Bytes that the calls of the calling thread's device send to other ranks, since `reset_nccl`, by the algorithms that
/// comm/traffic.hpp counts by.
[[nodiscard]] std::size_t nccl_sent();
/// From now on the communicators of that device find this error when they are asked.
void inject_nccl_error(int device, ncclResult_t code);
/// Forgets all communicators and ids. No other thread may use them meanwhile.
void reset_nccl();

}  // namespace heddle::emulation
