// SPDX-License-Identifier: Apache-2.0
// What tests of tests/emulation ask the emulated device for, on a real one: so the same sources run on both. A session
// demands that no device memory and no graph is left, which are counted here: the program is linked with --wrap for
// each function that has a __wrap_ below. The options of a session (late work, named memory) are the emulation's alone,
// and change nothing.
#include "../emulation/runtime.hpp"

#include <map>
#include <mutex>

namespace {

std::mutex guard;
std::map<void*, std::size_t> allocations;
std::size_t graphs = 0;

}  // namespace

extern "C" {
cudaError_t __real_cudaMalloc(void** memory, std::size_t bytes);
cudaError_t __real_cudaFree(void* memory);
cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes);
cudaError_t __wrap_cudaFree(void* memory);
cudaError_t __real_cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t from, unsigned long long flags);
cudaError_t __real_cudaGraphExecDestroy(cudaGraphExec_t graph);
cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t from, unsigned long long flags);
cudaError_t __wrap_cudaGraphExecDestroy(cudaGraphExec_t graph);

cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes) {
  cudaError_t const status = __real_cudaMalloc(memory, bytes);
  std::lock_guard<std::mutex> const lock(guard);
  if (status == cudaSuccess) allocations[*memory] = bytes;
  return status;
}
cudaError_t __wrap_cudaFree(void* memory) {
  {
    std::lock_guard<std::mutex> const lock(guard);
    allocations.erase(memory);
  }
  return __real_cudaFree(memory);
}
cudaError_t __wrap_cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t from, unsigned long long flags) {
  cudaError_t const status = __real_cudaGraphInstantiate(made, from, flags);
  std::lock_guard<std::mutex> const lock(guard);
  if (status == cudaSuccess) ++graphs;
  return status;
}
cudaError_t __wrap_cudaGraphExecDestroy(cudaGraphExec_t graph) {
  {
    std::lock_guard<std::mutex> const lock(guard);
    --graphs;
  }
  return __real_cudaGraphExecDestroy(graph);
}
}

namespace heddle::emulation {

void reset_devices(device_options const&) {}

usage usage_now() {
  std::lock_guard<std::mutex> const lock(guard);
  usage now;
  now.allocations = allocations.size();
  now.graphs = graphs;
  for (auto const& one : allocations) now.device_bytes += one.second;
  return now;
}

std::string take_fault() {
  cudaError_t const status = cudaDeviceSynchronize();
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

}  // namespace heddle::emulation
