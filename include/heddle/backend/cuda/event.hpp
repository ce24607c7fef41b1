// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <heddle/backend/cuda/status.hpp>
#include <memory>

namespace heddle::cuda {

namespace detail {
struct destroy_event {
  void operator()(cudaEvent_t handle) const noexcept { note(cudaEventDestroy(handle), "cudaEventDestroy"); }
};
}  // namespace detail

/// A point in a stream's work, on the device that is current when it is made: `stream_ref::record` puts it there, and
/// other streams (`stream_ref::wait`) and the host wait for it. It keeps no time, which would cost.
/// An event that was never recorded lies before all work: whoever waits for it does not wait.
class event {
 public:
  event() {
    cudaEvent_t made = nullptr;
    cudaError_t const status = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    handle_.reset(made);
    check(status, "cudaEventCreateWithFlags");
  }
  [[nodiscard]] cudaEvent_t get() const { return handle_.get(); }

  /// The calling thread waits until the work before it is done.
  void synchronize(source_place place = source_place::here()) const {
    check(cudaEventSynchronize(get()), "cudaEventSynchronize", place);
  }
  /// Whether the work before it is done.
  [[nodiscard]] bool done(source_place place = source_place::here()) const {
    cudaError_t const status = cudaEventQuery(get());
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // which is no failure, but kept like one
      return false;
    }
    check(status, "cudaEventQuery", place);
    return true;
  }

 private:
  std::unique_ptr<CUevent_st, detail::destroy_event> handle_;
};

}  // namespace heddle::cuda
