// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/detail/device_mover.hpp>
#include <heddle/backend/cuda/detail/device_rank.hpp>
#include <heddle/backend/cuda/execution.hpp>
#include <heddle/backend/cuda/shared_device_communicator.hpp>
#include <heddle/comm/threads.hpp>
#include <memory>
#include <string>

namespace heddle::cuda {

/// One run of thread ranks that share a device, from start to join. `run_shared_device` is how to use it.
class shared_device_run {
 public:
  shared_device_run(std::size_t ranks, int device, comm::thread_options options)
      : device_(device),
        movers_(std::make_shared<detail::device_movers>(ranks)),
        run_(within_limit(ranks), options, "run_shared_device", movers_) {}

  template <class F>
  void operator()(F& function) {
    // Not before all ranks are done: the streams of one have other ranks' work.
    struct at_end {
      detail::device_ranks& ranks;
      ~at_end() {
        for (auto const& one : ranks)
          if (one != nullptr) one->end();
      }
    } const ends{movers_->ranks()};
    run_.run_ranks([&](std::size_t rank) {
      auto const mine = std::make_shared<detail::device_rank>(device_);
      movers_->ranks()[rank] = mine;
      execution_scope const scope(mine->execution());
      shared_device_communicator world(comm::detail::thread_rank(run_.group(), rank), mine);
      function(world);
      // What this rank asked the device for has happened, or failed, when the run has ended.
      mine->execution().compute().synchronize();
      mine->communication().synchronize();
    });
  }

 private:
  static std::size_t within_limit(std::size_t ranks) {
    if (ranks > kernels::most_ranks)
      throw error("run_shared_device: ranks is " + std::to_string(ranks) + "; at most " +
                  std::to_string(kernels::most_ranks) + " share a device");
    return ranks;
  }

  int device_;
  std::shared_ptr<detail::device_movers> movers_;
  comm::thread_run run_;
};

/// Runs `function(communicator)` on `ranks` threads, each with its `shared_device_communicator` of all of them (named
/// "world") and an `execution` of the device, which is current there; returns when all have returned, and the device
/// has done what they asked for. All else is as for `comm::run_threads`, with its options and errors. It is how the
/// ranks of a plan run where there is one device: for tests, since ranks that share a device are not faster than one.
template <class F>
void run_shared_device(std::size_t ranks, int device, F&& function, comm::thread_options options = {}) {
  shared_device_run run(ranks, device, options);
  run(function);
}

}  // namespace heddle::cuda
