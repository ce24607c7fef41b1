// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/execution.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <heddle/comm/detail/data_mover.hpp>
#include <memory>
#include <mutex>
#include <vector>

namespace heddle::cuda::detail {

/// What orders the streams of one call of one rank: the rank's work before the call, and the call's own.
struct device_call : comm::detail::mover_call {
  event called, ended;
};

/// One rank on a device that it shares: what it computes with, and the events of its calls, which are pooled.
class device_rank {
 public:
  /// Selects the device for the calling thread.
  explicit device_rank(int device) : execution_(std::make_unique<cuda::execution>(device)) {}

  [[nodiscard]] cuda::execution& execution() { return *execution_; }
  /// Where kernels of communication run, of groups whose first member this rank is, and of what it sends.
  [[nodiscard]] stream_ref communication() const { return execution_->communication(); }

  /// A call of this rank, which its work so far comes before.
  [[nodiscard]] device_call& begin() {
    device_call& one = take();
    try {
      execution_->compute().record(one.called);
    } catch (...) {
      give(one);
      throw;
    }
    return one;
  }
  /// Further work of the rank comes after the call.
  void follow(device_call const& one) {
    if (execution_ != nullptr) execution_->compute().wait(one.ended);
  }
  /// The call's events are free.
  void give(device_call& one) {
    std::lock_guard lock(mutex_);
    free_.push_back(&one);
  }
  /// Its run is over: whatever is left of it, a communicator or a handle, has nothing on the device.
  void end() {
    all_.clear();
    execution_.reset();
  }

 private:
  device_call& take() {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      select_device(execution_->device());
      free_.reserve(all_.size() + 1);  // so that `give` allocates nothing
      all_.push_back(std::make_unique<device_call>());
      return *all_.back();
    }
    device_call& one = *free_.back();
    free_.pop_back();
    return one;
  }

  std::unique_ptr<cuda::execution> execution_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<device_call>> all_;
  std::vector<device_call*> free_;
};

}  // namespace heddle::cuda::detail
