// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <heddle/backend/cuda/detail/nccl_context.hpp>
#include <memory>
#include <string>
#include <utility>

namespace heddle::cuda {

/// An asynchronous operation of an `nccl_communicator`. `wait` lets the rank's compute stream wait for the operation,
/// and the host for no more than that NCCL has it; `done` tells whether the device is done with it: then `wait` returns
/// at once, as it may before.
class nccl_handle {
 public:
  /// A handle of nothing, which is done.
  nccl_handle() = default;
  nccl_handle(nccl_handle&& other) noexcept
      : context_(std::move(other.context_)), call_(std::exchange(other.call_, nullptr)) {}
  nccl_handle& operator=(nccl_handle&& other) noexcept {
    if (this == &other) return *this;
    close();
    context_ = std::move(other.context_);
    call_ = std::exchange(other.call_, nullptr);
    return *this;
  }
  ~nccl_handle() { close(); }

  /// Work that the compute stream is given from now on finds the operation done; throws what ended the run. Waiting
  /// again returns at once.
  void wait() {
    if (call_ == nullptr) return;
    try {
      context_->follow(*call_);
    } catch (...) {
      release();
      throw;
    }
    release();
  }
  [[nodiscard]] bool done() const { return call_ == nullptr || context_->done(*call_); }

 private:
  friend class nccl_communicator;
  nccl_handle(std::shared_ptr<detail::nccl_context> context, detail::nccl_call& call)
      : context_(std::move(context)), call_(&call) {}

  void release() noexcept {
    context_->give(*std::exchange(call_, nullptr));
    context_.reset();
  }

  /// One that nobody waited for is waited for; while an exception unwinds the stack it is left behind, and the rank may
  /// not communicate any more.
  void close() noexcept {
    if (call_ == nullptr) return;
    try {
      if (std::uncaught_exceptions() == 0)
        context_->follow(*call_);
      else if (!context_->done(*call_))
        context_->abandon("rank " + std::to_string(context_->rank()) + " failed: an exception left an unfinished " +
                          detail::text_of(*call_) +
                          " behind, so the rank cannot communicate any more; let the exception leave the rank's "
                          "function, or wait for the handle before it");
    } catch (...) {  // the run has failed: the next call says so, and the run does
    }
    release();
  }

  std::shared_ptr<detail::nccl_context> context_;
  detail::nccl_call* call_ = nullptr;
};

}  // namespace heddle::cuda
