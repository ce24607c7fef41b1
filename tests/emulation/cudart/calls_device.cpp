// SPDX-License-Identifier: Apache-2.0
// Stand-ins for what CUDA says of devices and errors, and for its launches, with the signatures of its headers.
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../announce.hpp"
#include "machine.hpp"

using heddle::emulation::announcement;
using heddle::emulation::call;
using heddle::emulation::last;
using heddle::emulation::machine;
using heddle::emulation::refusal;
using heddle::emulation::stream_state;

// ---- devices

namespace {
constexpr std::size_t kib = 1024;
constexpr std::size_t shared_of_every_kernel = 48 * kib;

/// The most dynamic shared memory that a kernel may ask for. (CUDA C++ Programming Guide, technical specifications per
/// compute capability.)
std::size_t most_shared(int capability) { return (capability >= 90 ? 227 : capability == 80 ? 163 : 99) * kib; }

void require_device(machine const& all, int device) {
  if (device < 0 || device >= all.options.devices)
    throw refusal{cudaErrorInvalidDevice,
                  "device " + std::to_string(device) + ", where there are " + std::to_string(all.options.devices)};
}
}  // namespace

/// No device, or not even a driver, are options of the test.
cudaError_t cudaGetDeviceCount(int* out) {
  *out = 0;
  return call("cudaGetDeviceCount", [&](machine& all) {
    if (all.options.driver < CUDART_VERSION)
      throw refusal{cudaErrorInsufficientDriver, "driver " + std::to_string(all.options.driver)};
    if (all.options.devices == 0) throw refusal{cudaErrorNoDevice, "there is none"};
    *out = all.options.devices;
  });
}
cudaError_t cudaDriverGetVersion(int* out) {
  return call("cudaDriverGetVersion", [&](machine& all) { *out = all.options.driver; });
}
cudaError_t cudaGetDevice(int* out) {
  return call("cudaGetDevice", [&](machine&) { *out = machine::device(); });
}
cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](machine& all) {
    require_device(all, device);
    machine::device() = device;
  });
}
cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&](machine& all) {
    all.refuse_in_capture("the host waits for the device");
    all.finish_device(machine::device());
    all.require_alive(machine::device());
  });
}
cudaError_t cudaDeviceGetAttribute(int* out, cudaDeviceAttr what, int device) {
  return call("cudaDeviceGetAttribute", [&](machine& all) {
    require_device(all, device);
    switch (what) {
      case cudaDevAttrComputeCapabilityMajor:
        *out = all.options.capability / 10;
        return;
      case cudaDevAttrComputeCapabilityMinor:
        *out = all.options.capability % 10;
        return;
      case cudaDevAttrMultiProcessorCount:
        *out = 4;
        return;
      case cudaDevAttrMaxThreadsPerBlock:
        *out = 1024;
        return;
      case cudaDevAttrWarpSize:
        *out = 32;
        return;
      case cudaDevAttrMaxSharedMemoryPerBlock:
        *out = static_cast<int>(shared_of_every_kernel);
        return;
      case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *out = static_cast<int>(most_shared(all.options.capability));
        return;
      default:
        throw refusal{cudaErrorInvalidValue,
                      "attribute " + std::to_string(static_cast<int>(what)) + ", which the emulated device lacks"};
    }
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* out, int device) {
  return call("cudaGetDeviceProperties", [&](machine& all) {
    require_device(all, device);
    *out = {};
    std::snprintf(static_cast<char*>(out->name), sizeof(out->name), "emulated device");
    out->major = all.options.capability / 10;
    out->minor = all.options.capability % 10;
    out->totalGlobalMem = all.options.bytes;
    out->multiProcessorCount = 4;
    out->maxThreadsPerBlock = 1024;
    out->warpSize = 32;
    out->sharedMemPerBlock = shared_of_every_kernel;
    out->sharedMemPerBlockOptin = most_shared(all.options.capability);
  });
}

// ---- launches

cudaError_t cudaFuncSetAttribute(void const* kernel, cudaFuncAttribute what, int value) {
  return call("cudaFuncSetAttribute", [&](machine& all) {
    if (what != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        static_cast<std::size_t>(value) > most_shared(all.options.capability))
      throw refusal{cudaErrorInvalidValue, "attribute " + std::to_string(static_cast<int>(what)) + " of " +
                                               std::to_string(value) + "; the device has up to " +
                                               std::to_string(most_shared(all.options.capability)) +
                                               " bytes of shared memory for a block"};
    all.shared_limit[kernel] = static_cast<std::size_t>(value);
  });
}

namespace {
/// A kernel with a copy of its arguments.
class bound_kernel {
 public:
  bound_kernel(announcement const& of, void** arguments) : call_(of.call), places_(of.parameters) {
    if (!places_.empty()) bytes_.resize(places_.back().offset + places_.back().bytes);
    for (std::size_t i = 0; i < places_.size(); ++i)
      std::memcpy(bytes_.data() + places_[i].offset, arguments[i], places_[i].bytes);
  }
  void run(std::string const& name, dim3 grid, dim3 block, std::size_t shared_bytes) const {
    std::vector<void const*> parameters(places_.size());
    for (std::size_t i = 0; i < places_.size(); ++i) parameters[i] = bytes_.data() + places_[i].offset;
    heddle::emulation::run_grid(
        name, grid, block, [&] { call_(parameters.data()); }, shared_bytes);
  }

 private:
  void (*call_)(void const* const*);
  std::span<heddle::emulation::parameter_place const> places_;
  std::vector<std::byte> bytes_;  // `new` aligns it as parameters need
};
}  // namespace

cudaError_t cudaLaunchKernel(void const* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  announcement const next = std::exchange(heddle::emulation::announced(), {});
  return call("cudaLaunchKernel", [&](machine& all) {
    if (kernel == nullptr || next.kernel != kernel)
      throw refusal{cudaErrorInvalidDeviceFunction, "a kernel that heddle::cuda::launch has not announced"};
    std::string const name = heddle::emulation::kernel_of(*next.tag);
    std::uint64_t const threads = std::uint64_t{block.x} * block.y * block.z;
    if (grid.x == 0 || grid.x > 0x7FFFFFFFU || grid.y == 0 || grid.y > 0xFFFFU || grid.z == 0 || grid.z > 0xFFFFU ||
        threads == 0 || threads > 1024)
      throw refusal{cudaErrorInvalidConfiguration, name};
    auto const limit = all.shared_limit.find(kernel);
    std::size_t const most = limit == all.shared_limit.end() ? shared_of_every_kernel : limit->second;
    if (shared_bytes > most)
      throw refusal{cudaErrorInvalidValue, name + " with " + std::to_string(shared_bytes) +
                                               " bytes of dynamic shared memory; it has asked for " +
                                               std::to_string(most)};
    stream_state& to = all.stream(stream);
    if (to.device != machine::device())
      throw refusal{cudaErrorInvalidResourceHandle, name + " on " + to.name + " of device " +
                                                        std::to_string(to.device) + ", while device " +
                                                        std::to_string(machine::device()) + " is current"};
    auto const run = [name, grid, block, body = bound_kernel(next, arguments), shared_bytes] {
      body.run(name, grid, block, shared_bytes);
    };
    if (!all.options.only_named || next.uses.empty())
      all.enqueue(to, {"kernel " + name, next.uses, run});
    else
      all.enqueue(to, {"kernel " + name, next.uses, [&all, name, uses = next.uses, run] {
                         std::string const wrong = all.memory.run_confined(uses, run);
                         if (!wrong.empty()) throw heddle::emulation::fault(name + ' ' + wrong);
                       }});
  });
}

// ---- errors

namespace {
struct meaning {
  cudaError_t code;
  char const* name;
  char const* text;
};
#define HEDDLE_MEANING(code, text) \
  { code, #code, text }
/// Those that an emulated device has.
constexpr meaning meanings[] = {
    HEDDLE_MEANING(cudaSuccess, "no error"),
    HEDDLE_MEANING(cudaErrorInvalidValue, "invalid argument"),
    HEDDLE_MEANING(cudaErrorMemoryAllocation, "out of memory"),
    HEDDLE_MEANING(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    HEDDLE_MEANING(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    HEDDLE_MEANING(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    HEDDLE_MEANING(cudaErrorInvalidDeviceFunction, "invalid device function"),
    HEDDLE_MEANING(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"),
    HEDDLE_MEANING(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    HEDDLE_MEANING(cudaErrorInvalidDevice, "invalid device ordinal"),
    HEDDLE_MEANING(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    HEDDLE_MEANING(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    HEDDLE_MEANING(cudaErrorNotReady, "device not ready"),
    HEDDLE_MEANING(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    HEDDLE_MEANING(cudaErrorLaunchFailure, "unspecified launch failure"),
    HEDDLE_MEANING(cudaErrorNotSupported, "operation not supported"),
    HEDDLE_MEANING(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    HEDDLE_MEANING(cudaErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    HEDDLE_MEANING(cudaErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    HEDDLE_MEANING(cudaErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    HEDDLE_MEANING(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    HEDDLE_MEANING(cudaErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    HEDDLE_MEANING(cudaErrorStreamCaptureImplicit,
                   "operation would make the legacy stream depend on a capturing blocking stream"),
    HEDDLE_MEANING(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    HEDDLE_MEANING(cudaErrorStreamCaptureWrongThread,
                   "attempt to terminate a thread-local capture sequence from another thread"),
};
#undef HEDDLE_MEANING
meaning const* meaning_of(cudaError_t code) {
  for (meaning const& one : meanings)
    if (one.code == code) return &one;
  return nullptr;
}
}  // namespace

char const* cudaGetErrorName(cudaError_t code) {
  meaning const* const one = meaning_of(code);
  return one == nullptr ? "unrecognized error code" : one->name;
}
/// CUDA's own text; of the thread's last error with what the emulation knows of it.
char const* cudaGetErrorString(cudaError_t code) {
  meaning const* const one = meaning_of(code);
  if (one == nullptr) return "unrecognized error code";
  if (last().code != code || last().text.empty()) return one->text;
  thread_local std::string text;
  text = std::string(one->text) + ": " + last().text;
  return text.c_str();
}
cudaError_t cudaPeekAtLastError() {
  machine& all = machine::get();
  std::unique_lock<std::mutex> const lock(all.mutex);
  cudaError_t const lost = all.lost_code(machine::device());
  return lost != cudaSuccess ? lost : last().taken ? cudaSuccess : last().code;
}
cudaError_t cudaGetLastError() {
  cudaError_t const code = cudaPeekAtLastError();
  last().taken = true;
  return code;
}
