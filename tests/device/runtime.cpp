// SPDX-License-Identifier: Apache-2.0
// What tests of tests/emulation ask the emulated device for, on a real one: so the same sources run on both. A session
// demands that no device memory is left, which is counted here: the program is linked with --wrap=cudaMalloc and
// --wrap=cudaFree. The options of a session (late work, named memory) are the emulation's alone, and change nothing.
#include "../emulation/runtime.hpp"

#include <map>
#include <mutex>

namespace {

std::mutex guard;
std::map<void*, std::size_t> allocations;

}  // namespace

extern "C" {
cudaError_t __real_cudaMalloc(void** memory, std::size_t bytes);
cudaError_t __real_cudaFree(void* memory);
cudaError_t __wrap_cudaMalloc(void** memory, std::size_t bytes);
cudaError_t __wrap_cudaFree(void* memory);

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
}

namespace heddle::emulation {

void reset_devices(device_options const&) {}

usage usage_now() {
  std::lock_guard<std::mutex> const lock(guard);
  usage now;
  now.allocations = allocations.size();
  for (auto const& one : allocations) now.device_bytes += one.second;
  return now;
}

std::string take_fault() {
  cudaError_t const status = cudaDeviceSynchronize();
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

}  // namespace heddle::emulation
