// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <string>
#include <vector>

#include "session.hpp"
#include "test_kernels.hpp"

namespace {

using namespace heddle;
using cuda::reads;
using cuda::writes;
using emulation::failure_of;
using emulation::has;
using emulation::in_every_mode;
using emulation::on_host;
using emulation::session;

constexpr auto scale = emulation::scale<double, 64>;

TEST_CASE("a launch converts its arguments, copies them, and runs every block") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<double> const data(150);
    {
      float by = 2;
      std::size_t n = 150;
      cuda::launch<scale>({3, 64}, stream, writes(data.data(), n), by, 5, n);
      by = 9;
      n = 0;
    }
    CHECK(on_host(stream, data) == std::vector<double>(150, 5.0));
  });
}

TEST_CASE("an integer that a parameter does not hold is an error") {
  session const here;
  cuda::stream const stream;
  auto const with = [&](auto n) { return failure_of([&] { cuda::launch<scale>({1, 64}, stream, nullptr, 1, 1, n); }); };
  CHECK(with(std::size_t{1} << 31) ==
        "launch<Kernel>: an argument of 2147483648 is too large for the parameter's 4 bytes; launch it on a part, or "
        "widen the parameter");
  CHECK(has(with(-(1LL << 31) - 1), "an argument of -2147483649"));
  CHECK(has(with(~0U), "an argument of 4294967295"));
  CHECK(with(0LL) == "");
}

TEST_CASE("a launch that names what lies outside, is freed, or is another device's") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<double> const data(64);
    double elsewhere[64];
    CHECK(has(
        failure_of([&] {
          cuda::launch<scale>({1, 64}, stream, writes(data.data() + 1, 64), 1, 1, 64);
        }),
        "kernel heddle::emulation::scale<double, 64> on stream 1 uses bytes 8 to 520 of device memory 1 (512 bytes)"));
    CHECK(has(failure_of([&] {
                cuda::launch<scale>({1, 64}, stream, writes(elsewhere, 64), 1, 1, 64);
              }),
              "uses memory that is not allocated"));
    cuda::launch<scale>({1, 64}, stream, writes<double>(nullptr, 64), 1, 1, 0);  // an argument that is not there
    stream.synchronize();
  });
}

TEST_CASE("an argument says what a kernel reaches through it") {
  in_every_mode([] {
    cuda::stream const one, two;
    cuda::device_arena<float> const from(32), to(32);
    emulation::two_arrays const arrays{to.data(), from.data()};
    std::array const uses{use_of(writes(to.data(), 32)), use_of(reads(from.data(), 32))};
    cuda::launch<emulation::copy_pair<32>>({1, 32}, one, cuda::carries(arrays, uses));
    CHECK(has(failure_of([&] { cuda::fill_zero(two, emulation::all_of(from)); }),
              "writes bytes 0 to 128 of device memory 1 (128 bytes), which kernel heddle::emulation::copy_pair<32> on "
              "stream 1 reads"));
    one.synchronize();
  });
}

TEST_CASE("planted: launches that do not name what their kernels use") {
  session const here({.only_named = true});
  cuda::stream const stream;
  cuda::device_arena<float> const x(32), y(32), sum(32);
  emulation::fill_from(stream, x, std::vector<float>(32, 1.0F));
  emulation::fill_from(stream, y, std::vector<float>(32, 2.0F));
  auto const sum_of = [&](auto to, auto one, auto other) {
    return failure_of([&] {
      cuda::launch<emulation::add<float, 32>>({1, 32}, stream, to, one, other, 32);
      stream.synchronize();
    });
  };
  CHECK(has(sum_of(writes(sum.data(), 31), reads(x.data(), 32), reads(y.data(), 32)),
            "add<float, 32> writes byte 124 of device memory 3 (128 bytes), which its launch does not name"));
  CHECK(sum_of(writes(sum.data(), 32), reads(x.data(), 32), reads(y.data(), 31)) == "");
  CHECK(sum.data()[30] == 3.0F);
  CHECK(std::isnan(sum.data()[31]));
  CHECK(y.data()[31] == 2.0F);                          // hidden, and there again
  CHECK(sum_of(sum.data(), x.data(), y.data()) == "");  // nothing is named
  CHECK(sum.data()[31] == 3.0F);
  emulation::two_arrays const arrays{sum.data(), x.data()};
  std::array const uses{use_of(reads(sum.data(), 32)), use_of(reads(x.data(), 32))};
  CHECK(has(failure_of([&] {
              cuda::launch<emulation::copy_pair<32>>({1, 32}, stream, cuda::carries(arrays, uses));
              stream.synchronize();
            }),
            "copy_pair<32> writes byte 2 of device memory 3 (128 bytes), which its launch names as read"));
}

TEST_CASE("a launch gives dynamic shared memory, more than every kernel has, too, and no more than it says") {
  session const here;
  cuda::stream const stream;
  cuda::device_arena<double> const data(64);
  auto const with = [&](std::size_t bytes) {
    return failure_of([&] {
      cuda::launch<emulation::through_dynamic_shared<64>>({1, 64, bytes}, stream, writes(data.data(), 64), 7680);
      stream.synchronize();
    });
  };
  CHECK(with(60 * 1024) == "");
  CHECK(on_host(stream, data)[5] == 7674.0);
  std::string const text = with(60 * 1024 - 8);
  CHECK_MESSAGE(has(text, "takes bytes 0 to 61440 of the dynamic shared memory at test_kernels.hpp:"), text);
  CHECK_MESSAGE(has(text, "; the launch gives 61432"), text);
}

TEST_CASE("launches that CUDA refuses") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<double> const data(64);
    auto const with = [&](cuda::launch_shape const& shape) {
      return failure_of([&] { cuda::launch<scale>(shape, stream, writes(data.data(), 64), 1, 1, 64); });
    };
    std::string const none = with({0, 64});
    CHECK(has(none,
              "a launch of heddle::emulation::scale<double, 64> in (0, 1, 1) blocks of (64, 1, 1) threads with 0 bytes "
              "of dynamic shared memory: "
              "cudaErrorInvalidConfiguration (9)"));
    CHECK(has(none, " (called at runtime_launch.cpp:"));  // where the shape is written
    CHECK(has(none, "a grid has 1 to (2147483647, 65535, 65535) blocks, a block 1 to 1024 threads"));
    CHECK(has(with({{1, 65536}, 64}), "cudaErrorInvalidConfiguration"));
    CHECK(has(with({1, {1, 1025}}), "cudaErrorInvalidConfiguration"));
    CHECK(has(with({1, 64, 228 * 1024}),
              "cudaFuncSetAttribute for a launch of heddle::emulation::scale<double, 64> in (1, 1, 1) blocks of (64, "
              "1, 1) threads "
              "with 233472 bytes of dynamic shared memory: cudaErrorInvalidValue"));
    void* arguments[] = {nullptr};
    CHECK(cudaLaunchKernel(&arguments, 1, 1, static_cast<void**>(arguments), 0, stream.get()) ==
          cudaErrorInvalidDeviceFunction);
    CHECK(*data.data() == 0.0);
  });
  session const older({.capability = 80});
  cuda::stream const stream;
  CHECK(has(failure_of([&] {
              cuda::launch<scale>({1, 64, 164 * 1024}, stream, nullptr, 1, 1, 0);
            }),
            "the device has up to 166912 bytes"));
}

TEST_CASE("a kernel's own fault loses the device: a call that waits has it, and all later ones") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<int> const out(64);
    std::string text;
    try {
      cuda::launch<emulation::forgetful<64>>({1, 64}, stream, writes(out.data(), 64));
      stream.synchronize();
    } catch (cuda::status_error const& error) {
      text = error.what();
      CHECK(error.sticky());
      CHECK(error.code() == cudaErrorLaunchFailure);
    }
    CHECK(has(text, "cudaStreamSynchronize: cudaErrorLaunchFailure (719), unspecified launch failure"));
    CHECK(has(text, "forgetful<64>, block (0, 0, 0): thread (0, 0, 0) reads element 63"));
    CHECK(has(text, "every later call of this process fails alike"));
    CHECK_THROWS_AS(cuda::fill_zero(stream, emulation::all_of(out)), cuda::status_error);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
    CHECK(cudaGetLastError() == cudaErrorLaunchFailure);
    CHECK(has(emulation::take_fault(), "forgetful<64>"));
  });
}

TEST_CASE("a kernel is launched with the block size that it is made for") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<double> const data(64);
    CHECK(has(failure_of([&] {
                cuda::launch<scale>({1, 32}, stream, writes(data.data(), 64), 1, 1, 64);
                stream.synchronize();
              }),
              "a block of 32 threads, of a kernel that is made for 64"));
  });
}

TEST_CASE("streams, and memory, of two devices") {
  session const here({.mode = emulation::execution::delayed, .devices = 2});
  cuda::stream const first;
  cuda::device_arena<double> const of_first(64);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(emulation::usage_now().device_bytes == 0);
  cuda::stream const second;
  cuda::device_arena<double> const of_second(64);
  CHECK(has(failure_of([&] {
              cuda::launch<scale>({1, 64}, first, writes(of_first.data(), 64), 1, 1, 64);
            }),
            "on stream 1 of device 0, while device 1 is current"));
  CHECK(has(failure_of([&] {
              cuda::launch<scale>({1, 64}, second, writes(of_first.data(), 64), 1, 1, 64);
            }),
            "uses device memory 1 (512 bytes) of device 0 on device 1"));
  cuda::launch<scale>({1, 64}, second, writes(of_second.data(), 64), 1, 3, 64);
  cuda::event const done;
  second.record(done);
  CHECK(has(failure_of([&] { first.record(done); }), "an event of device 1 on stream 1 of device 0"));
  first.wait(done);
  cuda::copy_on_device<double>(first, emulation::all_of(of_first), emulation::all_of(of_second));
  first.synchronize();
  CHECK(of_first.data()[63] == 3.0);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

}  // namespace
