// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/status.hpp>
#include <memory>
#include <utility>

namespace heddle::cuda {

/// A stream that somebody else owns: a `stream`, or a handle of CUDA's.
class stream_ref {
 public:
  explicit stream_ref(cudaStream_t handle) : handle_(handle) {}
  [[nodiscard]] cudaStream_t get() const { return handle_; }

  /// The event is, from now on, the end of the work that this stream has so far.
  void record(event const& point, source_place place = source_place::here()) const {
    check(cudaEventRecord(point.get(), handle_), "cudaEventRecord", place);
  }
  /// Work that this stream gets later begins after the event, as it was last recorded. The host does not wait.
  void wait(event const& point, source_place place = source_place::here()) const {
    check(cudaStreamWaitEvent(handle_, point.get(), 0), "cudaStreamWaitEvent", place);
  }
  /// The calling thread waits for all work of this stream. An error of that work is thrown here, or later.
  void synchronize(source_place place = source_place::here()) const {
    check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize", place);
  }
  /// Whether all work of this stream is done.
  [[nodiscard]] bool done(source_place place = source_place::here()) const {
    cudaError_t const status = cudaStreamQuery(handle_);
    if (status == cudaErrorNotReady) {
      (void)cudaGetLastError();  // which is no failure, but kept like one
      return false;
    }
    check(status, "cudaStreamQuery", place);
    return true;
  }

 private:
  cudaStream_t handle_;
};

namespace detail {
struct destroy_stream {
  void operator()(cudaStream_t handle) const noexcept { note(cudaStreamDestroy(handle), "cudaStreamDestroy"); }
};
inline cudaStream_t make_stream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return made;
}
}  // namespace detail

/// A stream of the device that is current when it is made: work runs in the order in which it was given, and beside
/// that of other streams, among them CUDA's default stream, for which it does not wait. What it still has to do when it
/// is destroyed is done.
class stream : public stream_ref {
 public:
  stream() : stream(detail::make_stream()) {}
  stream(stream&& other) noexcept : stream_ref(other), owned_(std::move(other.owned_)) {}
  stream& operator=(stream&& other) noexcept {
    stream_ref::operator=(other);
    owned_ = std::move(other.owned_);
    return *this;
  }

 private:
  explicit stream(cudaStream_t made) : stream_ref(made), owned_(made) {}

  std::unique_ptr<CUstream_st, detail::destroy_stream> owned_;
};

}  // namespace heddle::cuda
