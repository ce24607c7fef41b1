// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <concepts>
#include <heddle/backend/cuda/status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <memory>

namespace heddle::cuda {

namespace detail {
struct destroy_graph {
  void operator()(cudaGraph_t handle) const noexcept { note(cudaGraphDestroy(handle), "cudaGraphDestroy"); }
};
struct destroy_executable_graph {
  void operator()(cudaGraphExec_t handle) const noexcept { note(cudaGraphExecDestroy(handle), "cudaGraphExecDestroy"); }
};
}  // namespace detail

class executable_graph;
template <std::invocable Work>
executable_graph capture(stream_ref on, Work&& work, source_place place = source_place::here());

/// Work that one call gives to the device as a whole, as often as it is asked to. Its kernels' arguments and its
/// addresses stay those of the capture; what changes lies in memory.
class executable_graph {
 public:
  executable_graph() = default;
  [[nodiscard]] cudaGraphExec_t get() const { return handle_.get(); }

  /// Runs all of it, as the next work of the stream.
  void replay(stream_ref on, source_place place = source_place::here()) const {
    check(cudaGraphLaunch(get(), on.get()), "cudaGraphLaunch", place);
  }

 private:
  template <std::invocable Work>
  friend executable_graph capture(stream_ref on, Work&& work, source_place place);

  std::unique_ptr<CUgraphExec_st, detail::destroy_executable_graph> handle_;
};

/// What `work()` gives to the stream, and to streams that wait for an event of its, as a graph; none of it runs. Each
/// of those streams is waited for by `on` before `work` returns. Of this thread no call may allocate, copy from memory
/// that is not pinned, or wait for the device while it is captured; other threads are free. What `work` throws is
/// thrown on.
template <std::invocable Work>
executable_graph capture(stream_ref on, Work&& work, source_place place) {
  check(cudaStreamBeginCapture(on.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture", place);
  cudaGraph_t raw = nullptr;
  try {
    work();
  } catch (...) {
    // The capture must end, whatever has become of it; the exception says what went wrong.
    if (cudaStreamEndCapture(on.get(), &raw) == cudaSuccess)
      detail::destroy_graph{}(raw);
    else
      (void)cudaGetLastError();
    throw;
  }
  cudaError_t const ended = cudaStreamEndCapture(on.get(), &raw);
  std::unique_ptr<CUgraph_st, detail::destroy_graph> const recorded(raw);
  check(ended, "cudaStreamEndCapture", place);
  cudaGraphExec_t made = nullptr;
  cudaError_t const status = cudaGraphInstantiate(&made, recorded.get(), 0);
  executable_graph graph;
  graph.handle_.reset(made);
  check(status, "cudaGraphInstantiate", place);
  return graph;
}

}  // namespace heddle::cuda
