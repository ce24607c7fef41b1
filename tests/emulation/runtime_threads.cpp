// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <barrier>
#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/graph.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <string>
#include <thread>
#include <vector>

#include "session.hpp"
#include "test_kernels.hpp"

namespace {

using namespace heddle;
using cuda::reads;
using cuda::writes;
using emulation::has;
using emulation::in_every_mode;
using emulation::on_host;

constexpr auto scale = emulation::scale<float, 32>;
constexpr auto add = emulation::add<float, 32>;

void scale_all(cuda::stream_ref on, cuda::device_arena<float> const& data, float by, float plus) {
  cuda::launch<scale>({1, 32}, on, writes(data.data(), data.size()), by, plus, static_cast<int>(data.size()));
}

TEST_CASE("threads with a stream each work beside each other") {
  in_every_mode([] {
    std::array<std::vector<float>, 2> got;
    auto const rank = [&](std::size_t r) {
      cuda::stream const stream;
      cuda::device_arena<float> const data(32);
      for (int i = 0; i < 50; ++i) scale_all(stream, data, 1, static_cast<float>(r + 1));
      got[r] = on_host(stream, data);
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    CHECK(got[0] == std::vector<float>(32, 50.0F));
    CHECK(got[1] == std::vector<float>(32, 100.0F));
  });
}

/// Two threads, each with a part, sum both parts, as ranks of one device do: events say when a part is made.
std::array<std::string, 2> exchange(bool waits, std::array<std::vector<float>, 2>& got) {
  std::array<cuda::device_arena<float>, 2> const part{cuda::device_arena<float>(32), cuda::device_arena<float>(32)};
  std::array<cuda::stream, 2> const stream;
  std::array<cuda::event, 2> const made, read;
  std::array<std::string, 2> text;
  std::barrier all(2);
  auto const rank = [&](std::size_t r) {
    std::size_t const other = 1 - r;
    cuda::device_arena<float> const sum(32);
    for (int step = 0; step < 4; ++step) {
      try {
        if (step > 0) stream[r].wait(read[other]);
        scale_all(stream[r], part[r], 1, static_cast<float>(r + 1));
        stream[r].record(made[r]);
      } catch (heddle::error const& error) {
        text[r] = error.what();
      }
      all.arrive_and_wait();
      try {
        if (waits) stream[r].wait(made[other]);
        cuda::launch<add>({1, 32}, stream[r], writes(sum.data(), 32), reads(part[0].data(), 32),
                          reads(part[1].data(), 32), 32);
        stream[r].record(read[r]);
      } catch (heddle::error const& error) {
        text[r] = error.what();
      }
      all.arrive_and_wait();
    }
    if (waits) got[r] = on_host(stream[r], sum);
    all.arrive_and_wait();
  };
  std::thread second(rank, 1);
  rank(0);
  second.join();
  return text;
}

TEST_CASE("an event of one thread orders work of another") {
  in_every_mode([] {
    std::array<std::vector<float>, 2> got;
    CHECK(exchange(true, got) == std::array<std::string, 2>{});
    CHECK(got[0] == std::vector<float>(32, 12.0F));
    CHECK(got[1] == std::vector<float>(32, 12.0F));
  });
}

TEST_CASE("planted: a wait that is missing between threads") {
  in_every_mode([] {
    std::array<std::vector<float>, 2> got;
    std::array<std::string, 2> const text = exchange(false, got);
    CHECK(has(text[0] + text[1], "race: kernel heddle::emulation::add<float, 32>"));
    CHECK(has(emulation::take_fault(), "race: "));
  });
}

TEST_CASE("threads capture and replay beside each other") {
  in_every_mode([] {
    std::array<std::vector<float>, 2> got;
    auto const rank = [&](std::size_t r) {
      cuda::stream const stream;
      for (int i = 0; i < 5; ++i) {
        cuda::device_arena<float> const data(32);
        cuda::executable_graph const graph = cuda::capture(stream, [&] {
          scale_all(stream, data, 1, static_cast<float>(r + 1));
          scale_all(stream, data, 2, 0);
        });
        for (int k = 0; k < 3; ++k) graph.replay(stream);
        got[r] = on_host(stream, data);
      }
    };
    std::thread other(rank, 1);
    rank(0);
    other.join();
    CHECK(got[0] == std::vector<float>(32, 14.0F));
    CHECK(got[1] == std::vector<float>(32, 28.0F));
  });
}

}  // namespace
