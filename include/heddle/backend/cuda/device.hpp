// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <heddle/backend/cuda/status.hpp>
#include <string>

namespace heddle::cuda {

/// Devices that this process sees; 0 where there is none, or no driver for any. A driver that is too old is an error.
inline int device_count(source_place place = source_place::here()) {
  int count = 0, driver = 0;
  cudaError_t const status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice ||
      (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)) {
    (void)cudaGetLastError();
    return 0;
  }
  check(status, "cudaGetDeviceCount", place);
  return count;
}

/// The device on which this thread makes allocations, streams and events. Each thread has its own, at first 0.
inline int current_device(source_place place = source_place::here()) {
  int device = 0;
  check(cudaGetDevice(&device), "cudaGetDevice", place);
  return device;
}
inline void select_device(int device, source_place place = source_place::here()) {
  check(
      cudaSetDevice(device), [&] { return "cudaSetDevice(" + std::to_string(device) + ')'; }, place);
}

/// A number that the device says of itself, such as cudaDevAttrMultiProcessorCount.
inline int device_attribute(cudaDeviceAttr what, int device, source_place place = source_place::here()) {
  int value = 0;
  check(
      cudaDeviceGetAttribute(&value, what, device),
      [&] {
        return "cudaDeviceGetAttribute(" + std::to_string(static_cast<int>(what)) + " of device " +
               std::to_string(device) + ')';
      },
      place);
  return value;
}

/// The name that its vendor gave it: "NVIDIA H200".
inline std::string device_name(int device, source_place place = source_place::here()) {
  cudaDeviceProp properties{};
  check(
      cudaGetDeviceProperties(&properties, device),
      [&] { return "cudaGetDeviceProperties(" + std::to_string(device) + ')'; }, place);
  return static_cast<char const*>(properties.name);
}

/// Waits for all work of the current device, on all streams.
inline void synchronize_device(source_place place = source_place::here()) {
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize", place);
}

}  // namespace heddle::cuda
