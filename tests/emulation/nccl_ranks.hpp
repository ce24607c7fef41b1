// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/nccl.hpp>
#include <initializer_list>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "../comm/ranks.hpp"
#include "nccl/control.hpp"
#include "session.hpp"

namespace heddle::testing {

/// A session with NCCL: at its end no communicator is left, and what was aborted was aborted for a failure.
class nccl_session {
 public:
  explicit nccl_session(emulation::device_options const& options) : here_(options) { emulation::reset_nccl(); }
  nccl_session(nccl_session const&) = delete;
  nccl_session& operator=(nccl_session const&) = delete;
  ~nccl_session() {
    CHECK(emulation::nccl_communicators() == 0);
    emulation::reset_nccl();
  }

 private:
  emulation::session here_;
};

/// Ranks with an emulated device each, over the stand-in for NCCL, for the tests of `tests/comm`.
struct nccl_ranks {
  using communicator = cuda::nccl_communicator;
  using handle = cuda::nccl_handle;
  static constexpr int rounds = 20;

  static emulation::device_options& options() {
    static emulation::device_options one;
    return one;
  }

  template <class F>
  static void run(std::size_t ranks, F&& function, comm::thread_options how = {}) {
    emulation::device_options with = options();
    with.devices = static_cast<int>(ranks);
    nccl_session const here(with);
    std::vector<int> devices(ranks);
    std::iota(devices.begin(), devices.end(), 0);
    // All ranks have begun before one can fail: the tests ask what each of them saw.
    std::barrier begun(static_cast<std::ptrdiff_t>(ranks));
    cuda::run_nccl_threads(
        devices,
        [&](communicator& world) {
          begun.arrive_and_wait();
          function(world);
        },
        // Some have so little room that each element goes in a piece of its own, or few in one.
        {.timeout = how.timeout, .start = how.timeout, .room = (with.only_named ? 16 : 1024) * ranks});
  }
  /// Another thread of a rank, which computes with an execution of its own.
  template <class F>
  static std::thread thread(F function) {
    return std::thread([device = cuda::execution::current().device(), function = std::move(function)] {
      cuda::execution own(device);
      cuda::execution_scope const scope(own);
      function();
    });
  }
};

/// `body()` on devices that work at once, and on some that delay; of both, some let kernels use only what their
/// launches name.
template <class Body>
void over_nccl(Body const& body, std::initializer_list<std::uint64_t> seeds = {0, 1, 2, 3, 4, 5}) {
  for (std::uint64_t const seed : seeds) {
    CAPTURE(seed);
    nccl_ranks::options() = {.mode = seed < 2 ? emulation::execution::eager : emulation::execution::delayed,
                             .seed = seed,
                             .only_named = seed % 2 == 1};
    body();
  }
}

}  // namespace heddle::testing
