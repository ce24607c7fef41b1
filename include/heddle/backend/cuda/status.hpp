// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <concepts>
#include <heddle/backend/cuda/source_place.hpp>
#include <heddle/error.hpp>
#include <string>
#include <utility>

/// The device backend. Its headers need the CUDA Toolkit's, and no nvcc before a kernel is launched.
namespace heddle::cuda {

/// Whether every later call of the process fails like this one: the device's context is lost, and only a new process
/// has another.
constexpr bool is_sticky(cudaError_t code) {
  // The codes of which driver_types.h says it. Numbers: some have a name only in newer toolkits.
  switch (static_cast<int>(code)) {
    case 226:  // contained memory error
    case 700:  // illegal address
    case 702:  // launch timeout
    case 710:  // assert
    case 714:  // hardware stack
    case 715:  // illegal instruction
    case 716:  // misaligned address
    case 717:  // invalid address space
    case 718:  // invalid program counter
    case 719:  // launch failure
    case 721:  // tensor memory leak
    case 810:  // MPS client terminated
    case 911:  // external device
      return true;
    default:
      return false;
  }
}

/// A call of the CUDA runtime that failed. The text names the call, the code, its meaning, what to
/// do, and where it was made.
class status_error : public error {
 public:
  status_error(cudaError_t code, std::string const& text) : error(text), code_(code) {}
  [[nodiscard]] cudaError_t code() const { return code_; }
  [[nodiscard]] bool sticky() const { return is_sticky(code_); }

 private:
  cudaError_t code_;
};

namespace detail {

inline char const* remedy_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "; the ledger has what each arena takes: use a smaller micro-batch, a higher ZeRO stage or more ranks, "
             "and "
             "see in nvidia-smi who else holds the device's memory";
    case cudaErrorInvalidValue:
      return "; check that pointers lie in live allocations of the kind that the call names, and its sizes";
    case cudaErrorInvalidConfiguration:
      return "; a grid has 1 to (2147483647, 65535, 65535) blocks, a block 1 to 1024 threads";
    case cudaErrorLaunchOutOfResources:
      return "; use fewer threads a block, or less shared memory";
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
      return "; compile for this device's architecture (nvcc -gencode)";
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
      return "; nvidia-smi shows the devices that there are, and CUDA_VISIBLE_DEVICES those that this process sees";
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
      return "; update the driver, or compile with an older toolkit";
    case cudaErrorDevicesUnavailable:
      return "; another process holds the device alone: end it, or set the compute mode to default";
    case cudaErrorInvalidResourceHandle:
      return "; use streams, events and graphs before they are destroyed, and with the device current that they were "
             "made on";
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureImplicit:
      return "; allocate, synchronise, ask, and copy from memory that is not pinned before or after the capture";
    case cudaErrorStreamCaptureInvalidated:
      return "; an earlier call was not permitted in the capture, and its error says which";
    case cudaErrorStreamCaptureUnjoined:
      return "; let the stream whose capture it is wait for an event at the end of every other that joined it";
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorCapturedEvent:
      return "; record each event and wait for it in the same capture, or both outside";
    default:
      return is_sticky(code) ? "; the work that failed may lie before this call, and every later call of this process "
                               "fails alike: compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1, names it"
                             : "";
  }
}

inline std::string text_of(cudaError_t code, std::string const& call, source_place const& place) {
  return call + ": " + cudaGetErrorName(code) + " (" + std::to_string(static_cast<int>(code)) + "), " +
         cudaGetErrorString(code) + remedy_of(code) + place.text();
}

/// What a destructor of this thread met, which may not throw: the next `check` does. Of a lost device every call tells.
struct noted_failure {
  cudaError_t code = cudaSuccess;
  std::string text;
};
inline noted_failure& noted() {
  thread_local noted_failure failure;
  return failure;
}
inline void note(cudaError_t status, char const* call, source_place place = source_place::here()) noexcept {
  if (status == cudaSuccess) return;
  noted_failure& failure = noted();
  // The first one says most. A process that ends has nobody left to tell.
  if (failure.code == cudaSuccess && !is_sticky(status) && status != cudaErrorCudartUnloading)
    failure = {status, text_of(status, std::string(call) + " of a destructor", place)};
  (void)cudaGetLastError();
}

[[noreturn]] inline void fail(cudaError_t status, std::string const& call, source_place const& place) {
  noted_failure const earlier = std::exchange(noted(), {});
  if (status == cudaSuccess) throw status_error(earlier.code, earlier.text + " (found by " + call + ')' + place.text());
  std::string const text = text_of(status, call, place) + (earlier.text.empty() ? "" : "; before it, " + earlier.text);
  (void)cudaGetLastError();  // the runtime keeps a copy, for which the next launch would be blamed
  throw status_error(status, text);
}

}  // namespace detail

/// Throws `status_error` unless `status` is success. `call` names the call in the text: "cudaStreamSynchronize";
/// `place` is where it is made: a function passes on what it was given for its own caller to be named. Reports what a
/// destructor of this thread met before, too.
inline void check(cudaError_t status, char const* call, source_place place = source_place::here()) {
  if (status != cudaSuccess || detail::noted().code != cudaSuccess) [[unlikely]]
    detail::fail(status, call, place);
}
/// The same, where the text has values: `call()` is asked for it when it is needed.
template <std::invocable Call>
void check(cudaError_t status, Call const& call, source_place place = source_place::here()) {
  if (status != cudaSuccess || detail::noted().code != cudaSuccess) [[unlikely]]
    detail::fail(status, call(), place);
}

}  // namespace heddle::cuda
