// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/graph.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "session.hpp"
#include "test_kernels.hpp"

namespace {

using namespace heddle;
using cuda::reads;
using cuda::writes;
using emulation::all_of;
using emulation::failure_of;
using emulation::has;
using emulation::in_every_mode;
using emulation::on_host;
using emulation::session;

constexpr auto scale = emulation::scale<float, 32>;
constexpr auto add = emulation::add<float, 32>;

void scale_all(cuda::stream_ref on, cuda::device_arena<float> const& data, float by, float plus) {
  cuda::launch<scale>({1, 32}, on, writes(data.data(), data.size()), by, plus, static_cast<int>(data.size()));
}

TEST_CASE("what the reference shows") {
  in_every_mode([] {
    std::size_t const n = 32;
    cuda::pinned_arena<float> const batch(n), sums(n);
    for (std::size_t i = 0; i < n; ++i) batch.data()[i] = static_cast<float>(i);
    // [use]
    cuda::stream const compute, copies;
    cuda::event const computed, copied;
    cuda::device_arena<float> const x(n), y(n);

    cuda::executable_graph const step = cuda::capture(compute, [&] {
      cuda::copy_to_device<float>(compute, {x.data(), n}, {batch.data(), n});
      cuda::launch<add>({.grid = 1, .block = 32}, compute, writes(y.data(), n), reads(x.data(), n), reads(x.data(), n),
                        n);
      compute.record(computed);
      copies.wait(computed);  // from here on `copies` is captured, too
      cuda::copy_to_host<float>(copies, {sums.data(), n}, {y.data(), n});
      copies.record(copied);
      compute.wait(copied);
    });

    step.replay(compute);
    compute.synchronize();  // until here `batch` and `sums` are not ours
    // [/use]
    for (std::size_t i = 0; i < n; ++i) CHECK(sums.data()[i] == 2 * static_cast<float>(i));
  });
}

TEST_CASE("a graph runs when it is replayed, on what its buffers hold then") {
  in_every_mode([] {
    cuda::stream const stream;
    cuda::pinned_arena<float> const in(4), out(4);
    cuda::device_arena<float> const data(4);
    cuda::executable_graph const graph = cuda::capture(stream, [&] {
      cuda::copy_to_device<float>(stream, all_of(data), all_of(in));
      scale_all(stream, data, 2, 1);
      cuda::copy_to_host<float>(stream, all_of(out), all_of(data));
    });
    stream.synchronize();
    CHECK(*out.data() == 0.0F);  // the capture ran nothing
    for (float const value : {3.0F, 5.0F, 7.0F}) {
      for (float& one : all_of(in)) one = value;
      graph.replay(stream);
      stream.synchronize();
      for (float const one : all_of(out)) CHECK(one == 2 * value + 1);
    }
    scale_all(stream, data, 0, 1);  // work before and after it keeps its order
    graph.replay(stream);
    scale_all(stream, data, 1, 1);
    CHECK(on_host(stream, data) == std::vector<float>(4, 16.0F));
  });
}

TEST_CASE("streams that join by events are captured, too") {
  in_every_mode([] {
    cuda::stream const compute, communication;
    cuda::event const ready, reduced;
    cuda::device_arena<float> const data(32), sum(32), other(32);
    cuda::executable_graph const graph = cuda::capture(compute, [&] {
      scale_all(compute, data, 1, 1);
      compute.record(ready);
      communication.wait(ready);
      cuda::launch<add>({1, 32}, communication, writes(sum.data(), 32), reads(data.data(), 32), reads(data.data(), 32),
                        32);
      communication.record(reduced);
      scale_all(compute, other, 1, 1);  // beside it
      compute.wait(reduced);
      cuda::launch<add>({1, 32}, compute, writes(other.data(), 32), reads(other.data(), 32), reads(sum.data(), 32), 32);
    });
    graph.replay(compute);
    graph.replay(compute);
    CHECK(on_host(compute, other) == std::vector<float>(32, 8.0F));  // 1 + 2, + 1 + 4
    scale_all(communication, sum, 0, 0);                             // both streams are as before
    communication.synchronize();
  });
}

TEST_CASE("planted: a missing wait within a graph, and beside one") {
  in_every_mode([] {
    cuda::stream const compute, communication;
    cuda::event const ready, end;
    cuda::device_arena<float> const data(32);
    CHECK(has(failure_of([&] {
                (void)cuda::capture(compute, [&] {
                  compute.record(ready);
                  communication.wait(ready);
                  scale_all(compute, data, 1, 1);
                  scale_all(communication, data, 2, 0);
                  communication.record(end);
                  compute.wait(end);
                });
              }),
              "race: kernel heddle::emulation::scale<float, 32> on stream 2 writes bytes 0 to 128"));
    cuda::executable_graph const graph = cuda::capture(compute, [&] { scale_all(compute, data, 1, 1); });
    graph.replay(compute);
    CHECK(has(failure_of([&] { scale_all(communication, data, 1, 1); }),
              "which kernel heddle::emulation::scale<float, 32> on stream 1, in a graph on stream 1, writes"));
    scale_all(communication, data, 1, 1);
    CHECK(has(failure_of([&] { graph.replay(compute); }),
              "race: kernel heddle::emulation::scale<float, 32> on stream 1, in a graph"));
  });
}

TEST_CASE("launches of one graph come one after the other, on any streams") {
  in_every_mode([] {
    cuda::stream const one, two;
    cuda::device_arena<float> const data(4);
    cuda::executable_graph const graph = cuda::capture(one, [&] { scale_all(one, data, 2, 1); });
    graph.replay(one);
    graph.replay(two);
    graph.replay(one);
    CHECK(on_host(one, data) == std::vector<float>(4, 7.0F));
    two.synchronize();
  });
}

/// What `work` may not do in a capture, and that the stream can be captured again.
template <class Work>
std::string refused(cuda::stream_ref stream, cuda::device_arena<float> const& data, Work const& work) {
  std::string const text = failure_of([&] {
    (void)cuda::capture(stream, [&] {
      scale_all(stream, data, 1, 1);
      work();
      scale_all(stream, data, 1, 1);
    });
  });
  cuda::executable_graph const again = cuda::capture(stream, [&] { scale_all(stream, data, 1, 1); });
  again.replay(stream);
  stream.synchronize();
  return text;
}

TEST_CASE("what is not permitted in a capture is an error that says so, and ends it") {
  in_every_mode([] {
    cuda::stream const stream, other;
    cuda::event const inside, early;
    cuda::device_arena<float> const data(4), more(4);
    cuda::pinned_arena<float> const pinned(4);
    std::vector<float> pageable(4);
    other.record(early);
    std::string const unsupported =
        "cudaErrorStreamCaptureUnsupported (900), operation not permitted when stream is capturing";
    CHECK(has(refused(stream, data, [&] { stream.synchronize(); }), "cudaStreamSynchronize: " + unsupported));
    CHECK(has(refused(stream, data, [&] { (void)stream.done(); }), "cudaStreamQuery: " + unsupported));
    CHECK(has(refused(stream, data, [&] { cuda::device_arena<float> const taken(4); }),
              "cudaMalloc of 16 bytes: " + unsupported));
    CHECK(has(refused(stream, data, [&] { cuda::pinned_arena<float> const taken(4); }), unsupported));
    CHECK(has(refused(stream, data, [&] { cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }),
              unsupported));
    CHECK(has(
        refused(stream, data,
                [&] { cuda::check(cudaMemcpy(pinned.data(), data.data(), 4, cudaMemcpyDeviceToHost), "cudaMemcpy"); }),
        unsupported));
    std::string const copy = refused(stream, data, [&] { cuda::copy_to_host<float>(stream, pageable, all_of(data)); });
    CHECK(has(copy, "cudaMemcpyAsync of 16 bytes to the host: " + unsupported));
    CHECK(has(copy, "host memory that is not pinned"));
    CHECK(has(refused(stream, data,
                      [&] {
                        stream.record(inside);
                        inside.synchronize();
                      }),
              "cudaErrorCapturedEvent"));
    CHECK(has(refused(stream, data, [&] { stream.wait(early); }), "cudaErrorStreamCaptureIsolation"));
    CHECK(has(refused(stream, data,
                      [&] {
                        stream.record(inside);
                        other.wait(inside);
                        scale_all(other, more, 1, 1);
                      }),
              "cudaErrorStreamCaptureUnjoined"));
    CHECK(
        has(refused(stream, data,
                    [&] { cuda::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), "again"); }),
            "cudaErrorIllegalState"));
    // An event of a capture that is over.
    (void)cuda::capture(stream, [&] { stream.record(inside); });
    CHECK(has(failure_of([&] { other.wait(inside); }), "cudaErrorCapturedEvent"));
    // A call that nobody looked at ends the capture, too.
    CHECK(has(refused(stream, data, [&] { (void)cudaStreamSynchronize(stream.get()); }),
              "cudaErrorStreamCaptureInvalidated"));
    (void)cudaGetLastError();
    CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
    cudaGraph_t none = nullptr;
    CHECK(cudaStreamEndCapture(stream.get(), &none) == cudaErrorIllegalState);
  });
}

TEST_CASE("two captures do not meet") {
  session const here;
  cuda::stream const one, two;
  cuda::event const of_one;
  CHECK(has(failure_of([&] {
              (void)cuda::capture(one, [&] {
                one.record(of_one);
                (void)cuda::capture(two, [&] { two.wait(of_one); });
              });
            }),
            "cudaErrorStreamCaptureMerge"));
  REQUIRE(cudaStreamBeginCapture(one.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaStreamCaptureStatus status{};
  CHECK(cudaStreamIsCapturing(one.get(), &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  cudaError_t wrong_thread = cudaSuccess;
  std::thread([&] { wrong_thread = cudaStreamEndCapture(one.get(), &graph); }).join();
  CHECK(wrong_thread == cudaErrorStreamCaptureWrongThread);
  CHECK(cudaStreamEndCapture(one.get(), &graph) == cudaErrorStreamCaptureInvalidated);
}

TEST_CASE("what the captured work throws is thrown on, and the capture is over") {
  in_every_mode([] {
    cuda::stream const stream;
    CHECK_THROWS_WITH_AS((void)cuda::capture(stream, [] { throw std::runtime_error("mine"); }), "mine",
                         std::runtime_error);
    stream.synchronize();
  });
}

TEST_CASE("memory that is freed after the capture is found at the replay") {
  session const here;
  cuda::stream const stream;
  cuda::executable_graph graph;
  {
    cuda::device_arena<float> const data(4);
    graph = cuda::capture(stream, [&] { scale_all(stream, data, 1, 1); });
  }
  CHECK(has(failure_of([&] { graph.replay(stream); }),
            "in a graph, uses device memory 1 (16 bytes), which has been freed"));
  CHECK(has(failure_of([&] { cuda::executable_graph().replay(stream); }), "cudaErrorInvalidResourceHandle"));
}

TEST_CASE("a capture leaves other threads free, and a global one does not") {
  session const here;
  cuda::stream const stream;
  cuda::device_arena<float> const data(4);
  std::string text;
  cuda::executable_graph const graph = cuda::capture(stream, [&] {
    scale_all(stream, data, 1, 1);
    std::thread([&] {
      text = failure_of([] {
        cuda::stream const own;
        cuda::device_arena<float> const more(4);
        scale_all(own, more, 1, 1);
        own.synchronize();
      });
    }).join();
  });
  CHECK(text == "");
  REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal) == cudaSuccess);
  cudaError_t status = cudaSuccess;
  std::thread([&] {
    void* memory = nullptr;
    status = cudaMalloc(&memory, 4);
  }).join();
  CHECK(status == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t none = nullptr;
  CHECK(cudaStreamEndCapture(stream.get(), &none) == cudaErrorStreamCaptureInvalidated);
}

}  // namespace
