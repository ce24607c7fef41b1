// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <heddle/backend/cuda/blas.hpp>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/graph.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <string>
#include <utility>

#include "session.hpp"

namespace {

using namespace heddle;
using emulation::failure_of;
using emulation::has;
using emulation::session;

TEST_CASE("an error names the call, the code, its meaning and what to do") {
  session const here({.devices = 2});
  int line = 0;
  std::string const text = failure_of([&] {
    line = __LINE__ + 1;
    cuda::select_device(2);
  });
  CHECK(text ==
        "cudaSetDevice(2): cudaErrorInvalidDevice (101), invalid device ordinal: cudaSetDevice (emulated): device 2, "
        "where there are 2; nvidia-smi shows the devices that there are, and CUDA_VISIBLE_DEVICES those that this "
        "process sees (called at runtime_errors.cpp:" +
            std::to_string(line) + ')');
  CHECK(cudaPeekAtLastError() == cudaSuccess);  // no later call is blamed
  try {
    cuda::check(cudaErrorNoDevice, [] { return std::string("a call"); });
  } catch (cuda::status_error const& error) {
    CHECK(error.code() == cudaErrorNoDevice);
    CHECK(!error.sticky());
    CHECK(has(error.what(), "a call: cudaErrorNoDevice (100), no CUDA-capable device is detected; nvidia-smi"));
  }
  cuda::check(cudaSuccess, "nothing");
}

TEST_CASE("an error names the line of whoever calls") {
  session const here;
  int line = 0;
  auto const at = [&] { return " (called at runtime_errors.cpp:" + std::to_string(line) + ')'; };
  cuda::stream const stream;
  std::string text = failure_of([&] {
    line = __LINE__ + 1;
    cuda::device_arena<char> const some(std::size_t{1} << 50);
  });
  CHECK(has(text, "cudaMalloc of 1125899906842624 bytes: "));
  CHECK(has(text, at()));
  std::array<float, 4> host{};
  text = failure_of([&] {
    line = __LINE__ + 1;
    cuda::copy_to_host<float>(stream, host, host);
  });
  CHECK(has(text, "cudaMemcpyAsync of 16 bytes to the host"));
  CHECK(has(text, at()));
  cudaStream_t gone = nullptr;
  {
    cuda::stream const short_lived;
    gone = short_lived.get();
  }
  text = failure_of([&] {
    line = __LINE__ + 1;
    cuda::stream_ref(gone).synchronize();
  });
  CHECK(has(text, at()));
  CHECK(
      has(failure_of([] { cuda::check(CUBLAS_STATUS_ALLOC_FAILED, "a product"); }), "(called at runtime_errors.cpp:"));
}

TEST_CASE("handles that are gone are refused") {
  session const here;
  cuda::stream const stream;
  cuda::event const event;
  cudaStream_t gone = nullptr;
  {
    cuda::stream const short_lived;
    gone = short_lived.get();
  }
  CHECK(has(failure_of([&] { cuda::stream_ref(gone).synchronize(); }),
            "cudaStreamSynchronize: cudaErrorInvalidResourceHandle (400), invalid resource handle"));
  CHECK(
      has(failure_of([&] { cuda::stream_ref(gone).record(event); }), "use streams, events and graphs before they are"));
  CHECK(cudaEventRecord(nullptr, stream.get()) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaErrorNotSupported);
  CHECK(cudaStreamDestroy(nullptr) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaStreamCreateWithFlags(&gone, 7) == cudaErrorInvalidValue);
  cudaEvent_t none = nullptr;
  CHECK(cudaEventCreateWithFlags(&none, cudaEventInterprocess) == cudaErrorInvalidValue);
  CHECK(cudaStreamWaitEvent(stream.get(), event.get(), 8) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("what a destructor met is thrown by the next call of its thread") {
  session const here;
  cuda::stream const stream;
  {
    cuda::event const event;
    REQUIRE(cudaEventDestroy(event.get()) == cudaSuccess);
  }
  std::string const text = failure_of([&] { stream.synchronize(); });
  CHECK(has(text, "cudaEventDestroy of a destructor: cudaErrorInvalidResourceHandle (400)"));
  CHECK(has(text, "(found by cudaStreamSynchronize)"));
  stream.synchronize();
}

TEST_CASE("the codes that lose a device") {
  for (cudaError_t const code : {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorMisalignedAddress,
                                 cudaErrorAssert, cudaErrorIllegalInstruction, cudaErrorLaunchTimeout})
    CHECK(cuda::is_sticky(code));
  for (cudaError_t const code : {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation, cudaErrorNotReady})
    CHECK(!cuda::is_sticky(code));
}

TEST_CASE("a device that is lost stays lost, and the others do not") {
  session const here({.devices = 2});
  cuda::stream const stream;
  cuda::device_arena<float> const data(4);
  CHECK_THROWS_AS(cuda::fill_zero<float>(stream, {data.data(), 5}), cuda::status_error);
  CHECK_THROWS_AS(stream.synchronize(), cuda::status_error);
  CHECK_THROWS_AS(cuda::event(), cuda::status_error);
  CHECK(has(emulation::take_fault(), "uses bytes 0 to 20 of device memory 1"));
  CHECK_THROWS_AS(cuda::fill_zero<float>(stream, {data.data(), 5}), cuda::status_error);
  REQUIRE(cudaSetDevice(1) == cudaErrorIllegalAddress);
  CHECK(has(emulation::take_fault(), "uses bytes 0 to 20"));
  stream.synchronize();
}

TEST_CASE("devices") {
  session const here({.devices = 3, .bytes = 4096, .capability = 80});
  CHECK(cuda::device_count() == 3);
  CHECK(cuda::current_device() == 0);
  cuda::select_device(2);
  CHECK(cuda::current_device() == 2);
  CHECK(cuda::device_attribute(cudaDevAttrComputeCapabilityMajor, 2) == 8);
  CHECK(cuda::device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, 2) == 163 * 1024);
  CHECK(has(failure_of([] { (void)cuda::device_attribute(cudaDevAttrMaxPitch, 2); }),
            "cudaDeviceGetAttribute(11 of device 2): cudaErrorInvalidValue"));
  CHECK(cuda::device_name(2) == "emulated device");
  cuda::device_arena<char> const some(96);
  std::size_t free = 0, total = 0;
  CHECK(cudaMemGetInfo(&free, &total) == cudaSuccess);
  CHECK(free == 4000);
  CHECK(total == 4096);
  cuda::select_device(0);
  cuda::synchronize_device();
}

TEST_CASE("no device, no driver, an old driver") {
  {
    session const here({.devices = 0});
    CHECK(cuda::device_count() == 0);
  }
  {
    session const here({.devices = 0, .driver = 0});
    CHECK(cuda::device_count() == 0);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  session const here({.driver = CUDART_VERSION - 1000});
  CHECK(has(failure_of([] { (void)cuda::device_count(); }), "update the driver, or compile with an older toolkit"));
}

}  // namespace
