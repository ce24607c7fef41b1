// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <heddle/train/trace.hpp>
#include <map>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "scratch_folder.hpp"

using heddle::trace_event;
using heddle::trace_recorder;
using heddle::trace_span;
using heddle::write_trace;

namespace {
std::size_t allocations = 0;
}

// Counts, so that "recording does not allocate" is checked and not believed.
// Not inlined: g++ would match one with the other and warn of new with free.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("recording allocates nothing, and a full recorder counts what it leaves out") {
  trace_recorder recorder(3);
  std::size_t const before = allocations;
  for (int i = 0; i < 5; ++i) trace_span const span(&recorder, "forward", i);
  trace_span const nothing(nullptr, "forward");
  CHECK(allocations == before);
  REQUIRE(recorder.events().size() == 3);
  CHECK(recorder.left_out() == 2);
  CHECK(recorder.events()[2].number == 2);
  CHECK(recorder.events()[0].begin <= recorder.events()[0].end);
  CHECK(recorder.events()[0].end <= recorder.events()[1].begin);
  recorder.clear();
  CHECK(recorder.events().empty());
  CHECK(recorder.left_out() == 0);
}

TEST_CASE("a written trace is JSON with a track for each rank") {
  scratch_folder const folder;
  trace_recorder first(8), second(1);
  std::int64_t const begin = 5'000'000'123'456;  // past the 53 bits of a double once in picoseconds
  first.record({"forward", 3, begin + 1'000, begin + 3'500, {{"stage", 1}, {"bytes", -7}}});
  first.record({"optimizer \"step\"\n", trace_event::no_number, begin + 4'000, begin + 4'001, {}});
  second.record({"backward", 0, begin, begin + 7, {{}, {"stage", 2}}});
  second.record({"backward", 1, begin, begin + 7, {}});
  heddle::traced_rank const ranks[] = {{&first, 0, 0, "dp 0, \"pp\" 0"}, {&second, 1, 4}};
  write_trace(folder / "trace.json", ranks);

  auto const json = nlohmann::json::parse(bytes_of(folder / "trace.json"));
  std::map<std::string, nlohmann::json> complete;
  std::map<std::pair<int, int>, std::string> tracks;
  std::int64_t left_out = 0;
  for (auto const& event : json.at("traceEvents")) {
    if (event.at("ph") == "X") complete[event.at("name")] = event;
    if (event.at("name") == "thread_name") tracks[{event.at("pid"), event.at("tid")}] = event.at("args").at("name");
    if (event.at("name") == "heddle") left_out = event.at("args").at("events_left_out");
  }
  CHECK(tracks == std::map<std::pair<int, int>, std::string>{{{0, 0}, "dp 0, \"pp\" 0"}, {{4, 1}, "rank 1"}});
  REQUIRE(complete.size() == 3);
  auto const& forward = complete.at("forward 3");
  CHECK(forward.at("pid") == 0);
  CHECK(forward.at("tid") == 0);
  CHECK(forward.at("ts") == 1.0);
  CHECK(forward.at("dur") == 2.5);
  CHECK(forward.at("args") == nlohmann::json{{"stage", 1}, {"bytes", -7}});
  CHECK(complete.at("optimizer \"step\"\n").at("ts") == 4.0);
  CHECK(complete.at("optimizer \"step\"\n").at("dur") == 0.001);
  CHECK_FALSE(complete.at("optimizer \"step\"\n").contains("args"));
  CHECK(complete.at("backward 0").at("ts") == 0.0);
  CHECK(complete.at("backward 0").at("args") == nlohmann::json{{"stage", 2}});
  CHECK(left_out == 1);
}

TEST_CASE("an empty trace and a long one are whole") {
  scratch_folder const folder;
  write_trace(folder / "none.json", {});
  CHECK(nlohmann::json::parse(bytes_of(folder / "none.json")).at("traceEvents").size() == 1);
  trace_recorder recorder(5000);
  for (int i = 0; i < 5000; ++i) recorder.record({"send", i, i, i + 1, {}});
  heddle::traced_rank const rank[] = {{&recorder}};
  write_trace(folder / "long.json", rank);
  CHECK(nlohmann::json::parse(bytes_of(folder / "long.json")).at("traceEvents").size() == 5003);
  CHECK_THROWS_WITH_AS(write_trace(folder / "absent/a.json", rank), doctest::Contains("cannot be created"),
                       heddle::error);
}
