// SPDX-License-Identifier: Apache-2.0
// Programs that a seed draws: what they order is computed a second time, by sets of operations, and what they race by
// comparing each operation with all before it. Those without a race come to the same in every order.
#include <doctest/doctest.h>

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/launch.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "session.hpp"
#include "test_kernels.hpp"

namespace {

using namespace heddle;
using emulation::execution;
using emulation::has;
using emulation::session;

constexpr std::size_t elements = 24, streams = 3, events = 3, most = 400;

enum class act : std::uint8_t { scale, copy, record, wait, wait_on_host };
struct action {
  act what;
  std::size_t stream, event;
  std::size_t begin, end;  ///< of what is written, or scaled
  std::size_t from;        ///< of what is copied
};

/// Which operations come before what happens next in a stream, after an event, or on the host.
struct model {
  using known = std::bitset<most>;
  struct operation {
    std::bitset<elements> read, written;
  };
  std::array<known, streams> stream;
  std::array<known, events> event;
  known host;
  std::vector<operation> done;

  static operation of(action const& a) {
    operation one;
    for (std::size_t i = a.begin; i < a.end; ++i) one.written.set(i);
    for (std::size_t i = a.begin; i < a.end; ++i) one.read.set(a.what == act::copy ? i - a.begin + a.from : i);
    return one;
  }
  [[nodiscard]] bool races(action const& a) const {
    operation const one = of(a);
    known const before = stream[a.stream] | host;
    for (std::size_t i = 0; i < done.size(); ++i)
      if (!before[i] && ((done[i].written & (one.read | one.written)) | (done[i].read & one.written)).any())
        return true;
    return false;
  }
  void add(action const& a) {
    known& mine = stream[a.stream];
    switch (a.what) {
      case act::scale:
      case act::copy:
        mine |= host;
        mine.set(done.size());
        done.push_back(of(a));
        break;
      case act::record:
        event[a.event] = mine;
        break;
      case act::wait:
        mine |= event[a.event];
        break;
      case act::wait_on_host:
        host |= mine;
        break;
    }
  }
};

action draw(std::mt19937_64& random) {
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  // Mostly orders, so that most operations race with nothing.
  constexpr std::array kinds{act::scale, act::copy, act::record, act::record, act::record,
                             act::wait,  act::wait, act::wait,   act::wait,   act::wait_on_host};
  action a{kinds[below(kinds.size())], below(streams), below(events), 0, 0, 0};
  std::size_t const length = 1 + below(4);
  a.begin = below(elements - length + 1);
  a.end = a.begin + length;
  do a.from = below(elements - length + 1);
  while (a.what == act::copy && a.from < a.end && a.begin < a.from + length);
  return a;
}

/// Actions without a race, and, if one is asked for, at last one with.
std::vector<action> program(std::uint64_t seed, bool with_race) {
  std::mt19937_64 random(seed);
  model all;
  std::vector<action> actions;
  for (;;) {
    action const a = draw(random);
    bool const works = a.what == act::scale || a.what == act::copy;
    if (works && all.races(a)) {
      if (with_race && actions.size() > 60) {
        actions.push_back(a);
        return actions;
      }
      continue;
    }
    if (!with_race && actions.size() > 200) return actions;
    if (works || all.done.size() < most) all.add(a);
    actions.push_back(a);
  }
}

struct outcome {
  std::vector<float> values;
  std::optional<std::size_t> raced;  ///< the action that was refused
};

outcome run(std::vector<action> const& actions) {
  std::array<cuda::stream, streams> const stream;
  std::array<cuda::event, events> const event;
  cuda::device_arena<float> const data(elements);
  outcome result;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    action const& a = actions[i];
    cuda::stream const& on = stream[a.stream];
    std::size_t const n = a.end - a.begin;
    try {
      switch (a.what) {
        case act::scale:
          cuda::launch<emulation::scale<float, 32>>({1, 32}, on, cuda::writes(data.data() + a.begin, n), 0.5F,
                                                    static_cast<float>(i), n);
          break;
        case act::copy:
          cuda::copy_on_device<float>(on, {data.data() + a.begin, n}, {data.data() + a.from, n});
          break;
        case act::record:
          on.record(event[a.event]);
          break;
        case act::wait:
          on.wait(event[a.event]);
          break;
        case act::wait_on_host:
          on.synchronize();
          break;
      }
    } catch (cuda::status_error const& error) {
      if (!has(error.what(), "race: ")) throw;
      result.raced = i;
      (void)emulation::take_fault();
      return result;
    }
  }
  cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  result.values.assign(data.data(), data.data() + elements);
  return result;
}

TEST_CASE("programs without a race come to the same in every order that they allow") {
  std::size_t operations = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    std::vector<action> const actions = program(seed, false);
    std::optional<std::vector<float>> expected;
    for (std::uint64_t order = 0; order < 5; ++order) {
      session const here({.mode = order == 0 ? execution::eager : execution::delayed, .seed = order});
      outcome const got = run(actions);
      REQUIRE(!got.raced);
      if (!expected) expected = got.values;
      CHECK(got.values == *expected);
    }
    for (action const& a : actions) operations += a.what == act::scale || a.what == act::copy ? 1 : 0;
  }
  CHECK(operations > 500);
}

TEST_CASE("the first operation that races is refused, and none before it") {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    std::vector<action> const actions = program(seed, true);
    session const here({.mode = seed % 2 == 0 ? execution::eager : execution::delayed, .seed = seed});
    CHECK(run(actions).raced == actions.size() - 1);
  }
}

}  // namespace
