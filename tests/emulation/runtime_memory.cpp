// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <utility>
#include <vector>

#include "session.hpp"
#include "test_kernels.hpp"

namespace {

using namespace heddle;
using emulation::all_of;
using emulation::failure_of;
using emulation::has;
using emulation::in_every_mode;
using emulation::session;

TEST_CASE("arenas are zeros, of the length and the bytes that were asked for, and are given back") {
  in_every_mode([] {
    cuda::stream const stream;
    {
      cuda::device_arena<float> arena(100);
      cuda::pinned_arena<double> pinned(10);
      CHECK(arena.size() == 100);
      CHECK(arena.bytes() == 400);
      CHECK(emulation::usage_now().device_bytes == 400);
      CHECK(emulation::usage_now().pinned_bytes == 80);
      for (float const one : emulation::on_host(stream, arena)) CHECK(one == 0.0F);
      for (double const one : all_of(pinned)) CHECK(one == 0.0);
      cuda::device_arena<float> const taken = std::move(arena);
      CHECK(taken.size() == 100);
      CHECK(emulation::usage_now().device_bytes == 400);
    }
    CHECK(emulation::usage_now().allocations == 0);
    cuda::device_arena<float> const empty(0), none;
    CHECK(empty.data() == nullptr);
    CHECK(none.bytes() == 0);
  });
}

TEST_CASE("copies go to the device, on it, and back") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::pinned_arena<float> const in(64), out(64);
    cuda::device_arena<float> const first(64), second(64);
    for (std::size_t i = 0; i < 64; ++i) in.data()[i] = static_cast<float>(i);
    cuda::copy_to_device<float>(stream, all_of(first), all_of(in));
    cuda::copy_on_device<float>(stream, all_of(second), all_of(first));
    cuda::fill_zero(stream, all_of(second).subspan(3, 2));
    cuda::copy_to_host<float>(stream, all_of(out), all_of(second));
    stream.synchronize();
    for (std::size_t i = 0; i < 64; ++i) CHECK(out.data()[i] == (i == 3 || i == 4 ? 0.0F : static_cast<float>(i)));
    CHECK(emulation::waiting_copies() == 0);
  });
}

TEST_CASE("a block of a matrix is copied, and nothing beside it") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<int> const from(12), to(20);
    std::vector<int> values(12);
    for (int i = 0; i < 12; ++i) values[static_cast<std::size_t>(i)] = i + 1;
    emulation::fill_from(stream, from, values);
    // columns 1 and 2 of 3 rows of 4, to columns 3 and 4 of 3 rows of 5
    cuda::copy_block_on_device<int>(stream, {to.data() + 3, 3, 2, 5}, {from.data() + 1, 3, 2, 4});
    std::vector<int> const got = emulation::on_host(stream, to);
    for (std::size_t i = 0; i < 20; ++i) {
      std::size_t const row = i / 5, column = i % 5;
      CHECK(got[i] == (row < 3 && column >= 3 ? static_cast<int>(row * 4 + column - 2 + 1) : 0));
    }
    CHECK_THROWS_WITH_AS(cuda::copy_block_on_device<int>(stream, {to.data(), 3, 2, 5}, {from.data(), 2, 3, 4}),
                         "a copy of a block of 2 rows of 3 into one of 3 rows of 2; give both one shape",
                         heddle::error);
  });
}

TEST_CASE("host memory that is not pinned: its copies make the host wait, and are right") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<int> const arena(4);
    {
      std::vector<int> values{1, 2, 3, 4};
      emulation::fill_from(stream, arena, values);
      values = {9, 9, 9, 9};  // it was read before the call returned
    }
    std::vector<int> out(4);
    cuda::copy_to_host<int>(stream, out, all_of(arena));
    CHECK(out == std::vector<int>{1, 2, 3, 4});
    CHECK(emulation::waiting_copies() == 2);
  });
}

TEST_CASE("what pinned memory holds before the stream was waited for is not what was copied") {
  session const here({.mode = emulation::execution::delayed});
  cuda::stream const stream;
  cuda::device_arena<int> const arena(1);
  cuda::pinned_arena<int> const one(1), out(1);
  *one.data() = 5;
  cuda::copy_to_device<int>(stream, all_of(arena), all_of(one));
  cuda::copy_to_host<int>(stream, all_of(out), all_of(arena));
  CHECK(*out.data() == 0);
  *one.data() = 6;  // too early: the copy still reads it
  stream.synchronize();
  CHECK(*out.data() == 6);
}

TEST_CASE("memory that nobody wrote holds no number") {
  session const here;
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, 4) == cudaSuccess);
  float value = 0;
  REQUIRE(cudaMemcpy(&value, memory, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(std::isnan(value));
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("a copy or fill that reaches outside is a fault that names bytes and allocation") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::device_arena<float> const arena(16), other(16);
    cuda::pinned_arena<float> const pinned(16);
    float outside[32] = {};
    CHECK(has(failure_of([&] {
                cuda::fill_zero<float>(stream, {arena.data() + 4, 16});
              }),
              "a fill of 64 bytes on stream 1 uses bytes 16 to 80 of device memory 1 (64 bytes)"));
    CHECK(has(failure_of([&] {
                cuda::copy_on_device<float>(stream, {arena.data() + 15, 2}, {other.data(), 2});
              }),
              "uses bytes 60 to 68 of device memory 1"));
    CHECK(has(failure_of([&] {
                cuda::copy_to_host<float>(stream, {pinned.data() + 8, 16}, all_of(arena));
              }),
              "uses bytes 32 to 96 of pinned memory 3"));
    CHECK(has(failure_of([&] {
                cuda::copy_to_device<float>(stream, {outside, 4}, {pinned.data(), 4});
              }),
              "uses memory that is not allocated"));
    CHECK(has(failure_of([&] {
                cuda::copy_to_device<float>(stream, all_of(pinned), {outside, 16});
              }),
              "uses pinned memory 3 (64 bytes) as if it were the device's"));
    CHECK(has(failure_of([&] { cuda::copy_to_host<float>(stream, all_of(arena), all_of(other)); }),
              "uses device memory 1 (64 bytes) as if it were the host's"));
    CHECK(has(failure_of([&] {
                cuda::copy_on_device<float>(stream, {arena.data(), 8}, {arena.data() + 4, 8});
              }),
              "onto a part of itself"));
    CHECK(has(failure_of([&] {
                cuda::copy_to_host<float>(stream, {outside, 3}, all_of(arena));
              }),
              "a copy of 16 elements into 3; give both sides one length"));
  });
}

TEST_CASE("what has been freed is a fault, and so is freeing twice or elsewhere") {
  in_every_mode([] {
    cuda::stream const stream;
    void *memory = nullptr, *pinned = nullptr;
    REQUIRE(cudaMalloc(&memory, 64) == cudaSuccess);
    REQUIRE(cudaHostAlloc(&pinned, 64, cudaHostAllocPortable) == cudaSuccess);
    auto* const numbers = static_cast<float*>(memory);
    CHECK(cudaFree(static_cast<char*>(memory) + 8) == cudaErrorInvalidValue);
    CHECK(has(cudaGetErrorString(cudaErrorInvalidValue), "an address within device memory 1 (64 bytes)"));
    CHECK(cudaFree(pinned) == cudaErrorInvalidValue);
    CHECK(has(cudaGetErrorString(cudaErrorInvalidValue), "pinned memory 2 (64 bytes), freed as device memory"));
    CHECK(cudaFreeHost(memory) == cudaErrorInvalidValue);
    CHECK(cudaFree(&memory) == cudaErrorInvalidValue);
    CHECK(has(cudaGetErrorString(cudaErrorInvalidValue), "an address in no allocation"));
    CHECK(cudaFree(nullptr) == cudaSuccess);
    CHECK(cudaFree(memory) == cudaSuccess);
    CHECK(cudaFree(memory) == cudaErrorInvalidValue);
    CHECK(has(cudaGetErrorString(cudaErrorInvalidValue), "device memory 1 (64 bytes), which has been freed before"));
    CHECK(has(failure_of([&] {
                cuda::fill_zero<float>(stream, {numbers, 16});
              }),
              "uses device memory 1 (64 bytes), which has been freed"));
    CHECK(cudaFreeHost(pinned) == cudaSuccess);
  });
}

#if !defined(__SANITIZE_ADDRESS__)  // which sees it first
TEST_CASE("a kernel that writes beside an allocation, and says nothing of it, is found when that is freed") {
  for (auto const& [at, text] : std::vector<std::pair<int, std::string>>{
           {16, "device memory 1 (64 bytes) was written 1 bytes behind its end"},
           {-1, "device memory 1 (64 bytes) was written 1 bytes before its begin"}}) {
    session const here;
    cuda::stream const stream;
    {
      cuda::device_arena<float> const arena(16);
      cuda::launch<emulation::write_at<32>>({1, 32}, stream, arena.data(), at);
      stream.synchronize();
    }
    CHECK(has(failure_of([&] { stream.synchronize(); }), text));
  }
}
#endif

TEST_CASE("memory that is not there") {
  session const here({.bytes = 1000});
  cuda::device_arena<char> const most(900);
  std::string const text = failure_of([] { cuda::device_arena<char> const more(101); });
  CHECK(has(text, "cudaMalloc of 101 bytes: cudaErrorMemoryAllocation (2), out of memory"));
  CHECK(has(text, "101 bytes, where 900 of 1000 are taken"));
  CHECK(has(text, "use a smaller micro-batch"));
  cuda::device_arena<char> const rest(100);  // and no call is blamed for it later
}

}  // namespace
