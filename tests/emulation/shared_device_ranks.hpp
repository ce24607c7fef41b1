// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/shared_device.hpp>
#include <initializer_list>
#include <thread>
#include <utility>

#include "../comm/ranks.hpp"
#include "session.hpp"

namespace heddle::testing {

/// Ranks that share an emulated device, for the tests of `tests/comm`: each run has a device of its own, which works as
/// `options` say, and on which nothing is left at its end.
struct shared_device_ranks {
  using communicator = cuda::shared_device_communicator;
  using handle = cuda::shared_device_handle;
  static constexpr int rounds = 20;

  static emulation::device_options& options() {
    static emulation::device_options one;
    return one;
  }

  template <class F>
  static void run(std::size_t ranks, F&& function, comm::thread_options how = {}) {
    emulation::session const here(options());
    cuda::run_shared_device(ranks, 0, std::forward<F>(function), how);
  }
  /// Another thread of a rank, which computes with the rank's execution.
  template <class F>
  static std::thread thread(F function) {
    return std::thread([&own = cuda::execution::current(), function = std::move(function)] {
      cuda::execution_scope const scope(own);
      function();
    });
  }
};

/// `body()` on a device that works at once, and on some that delay; of both, some let kernels use only what their
/// launches name.
template <class Body>
void on_shared_devices(Body const& body, std::initializer_list<std::uint64_t> seeds = {0, 1, 2, 3, 4, 5}) {
  for (std::uint64_t const seed : seeds) {
    CAPTURE(seed);
    shared_device_ranks::options() = {.mode = seed < 2 ? emulation::execution::eager : emulation::execution::delayed,
                                      .seed = seed,
                                      .only_named = seed % 2 == 1};
    body();
  }
}

}  // namespace heddle::testing
