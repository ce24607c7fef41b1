// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <heddle/backend/cuda/detail/device_rank.hpp>
#include <heddle/comm/thread_handle.hpp>
#include <memory>
#include <utility>

namespace heddle::cuda {

/// An asynchronous operation of a `shared_device_communicator`: a `thread_handle`, whose `wait` also lets the rank's
/// compute stream wait for the operation. The host waits for the other ranks' calls alone, not for the device, and
/// `done` tells of those.
class shared_device_handle {
 public:
  /// A handle of nothing, which is done.
  shared_device_handle() = default;
  shared_device_handle(shared_device_handle&& other) noexcept
      : met_(std::move(other.met_)), rank_(std::move(other.rank_)), call_(std::exchange(other.call_, nullptr)) {}
  shared_device_handle& operator=(shared_device_handle&& other) noexcept {
    if (this == &other) return *this;
    close();
    met_ = std::move(other.met_);
    rank_ = std::move(other.rank_);
    call_ = std::exchange(other.call_, nullptr);
    return *this;
  }
  ~shared_device_handle() { close(); }

  /// Work that the compute stream is given from now on finds the operation done; throws what ended the run. Waiting
  /// again returns at once.
  void wait() {
    if (call_ == nullptr) return;
    try {
      met_.wait();
      rank_->follow(*call_);
    } catch (...) {
      release();
      throw;
    }
    release();
  }

  /// Whether `wait()` would return, or throw, without waiting.
  [[nodiscard]] bool done() const noexcept { return met_.done(); }

 private:
  friend class shared_device_communicator;
  shared_device_handle(comm::thread_handle met, std::shared_ptr<detail::device_rank> rank, detail::device_call& call)
      : met_(std::move(met)), rank_(std::move(rank)), call_(&call) {}

  void release() noexcept {
    rank_->give(*std::exchange(call_, nullptr));
    rank_.reset();
  }

  void close() noexcept {
    if (call_ == nullptr) return;
    met_ = {};  // waits for it, or takes it back while an exception unwinds
    try {
      // Where it was taken back, or the run has failed, the event may be an earlier call's, and says less.
      rank_->follow(*call_);
    } catch (...) {  // the device is lost: the next call says so
    }
    release();
  }

  comm::thread_handle met_;
  std::shared_ptr<detail::device_rank> rank_;
  detail::device_call* call_ = nullptr;
};

}  // namespace heddle::cuda
