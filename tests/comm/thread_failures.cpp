// SPDX-License-Identifier: Apache-2.0
// A rank that throws, stalls, leaves or disagrees ends the others with an error that says so (known faults HT, NC, UN).
#include <doctest/doctest.h>

#if defined(__unix__)
#include <sys/wait.h>
#include <unistd.h>
#endif
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <heddle/comm/threads.hpp>
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace thread_failures_test {
namespace {

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

milliseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

/// Runs `body` on every rank. Returns what each rank saw (empty where nothing was thrown), and as the last entry what
/// `run_threads` threw, which must be an `Error`.
template <class Error, class Body>
std::vector<std::string> seen(std::size_t ranks, Body body, thread_options options = {}) {
  std::vector<std::string> texts(ranks + 1);
  try {
    run_threads(
        ranks,
        [&](thread_communicator& world) {
          try {
            body(world);
          } catch (std::exception const& e) {
            texts[world.rank()] = e.what();
            throw;
          }
        },
        options);
  } catch (Error const& e) {
    texts[ranks] = e.what();
  }
  return texts;
}

/// Every rank and the caller have a text with all the parts.
void check_all(std::vector<std::string> const& texts, std::vector<std::string> const& parts) {
  for (std::string const& text : texts) {
    CAPTURE(text);
    for (std::string const& part : parts) CHECK_MESSAGE(has(text, part), part);
  }
}

}  // namespace

TEST_CASE("a rank that throws ends ranks in every kind of call, with its text (HT-1)") {
  watchdog const guard;
  auto const start = steady_clock::now();
  std::array<std::string, 4> texts;
  try {
    run_threads(4, [&](thread_communicator& world) {
      std::vector<float> data(4), other(4);
      try {
        if (world.rank() == 0) world.all_reduce(std::span(data));
        if (world.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(50));
          throw std::runtime_error("backward of micro-batch 2 met a NaN");
        }
        if (world.rank() == 2) world.receive(std::span(data), 1);
        if (world.rank() == 3) {
          thread_handle one = world.receive_async(std::span(data), 1);
          thread_handle two = world.all_reduce_async(std::span(other));
          two.wait();
        }
      } catch (rank_failed const& e) {
        if (e.rank() == 1) texts[world.rank()] = e.what();
        throw;
      }
    });
    FAIL("run_threads returned");
  } catch (rank_failed const& e) {
    CHECK(e.rank() == 1);
    texts[1] = e.what();
    CHECK_THROWS_WITH_AS(std::rethrow_exception(e.cause()), "backward of micro-batch 2 met a NaN", std::runtime_error);
  }
  CHECK(since(start) < milliseconds(5000));
  for (std::string const& text : texts) CHECK(text == "rank 1 failed: backward of micro-batch 2 met a NaN");

  std::atomic<int> sum{0};  // a fresh group works afterwards
  run_threads(4, [&](thread_communicator& world) {
    std::array<int, 1> one{1};
    world.all_reduce(std::span<int>(one));
    sum += one[0];
  });
  CHECK(sum == 16);
}

TEST_CASE("a failure reaches other groups, later calls, and things that are no std::exception") {
  watchdog const guard;
  std::atomic<int> threw{0};
  try {
    run_threads(4, [&](thread_communicator& world) {
      thread_communicator pair = world.split(world.rank() / 2, world.rank(), "pair");
      if (world.rank() == 3) throw 42;
      for (int i = 0; i < 3; ++i) {
        try {
          for (;;) pair.barrier();
        } catch (rank_failed const&) {
          ++threw;
        }
      }
    });
    FAIL("run_threads returned");
  } catch (rank_failed const& e) {
    CHECK(e.rank() == 3);
    CHECK_THROWS_AS(std::rethrow_exception(e.cause()), int);
  }
  CHECK(threw == 9);
}

TEST_CASE("nothing is communicated and nothing blocks while an exception unwinds (HT-2)") {
  watchdog const guard;
  struct barrier_at_end {
    thread_communicator& group;
    std::atomic<int>& refused;
    ~barrier_at_end() {
      try {
        group.barrier();
      } catch (communication_error const&) {
        ++refused;
      }
    }
  };
  std::atomic<int> refused{0};
  std::array<std::atomic<std::uint64_t>, 2> barriers{};
  auto const start = steady_clock::now();
  auto const texts = seen<rank_failed>(2, [&](thread_communicator& world) {
    std::vector<float> a(100), b(100), c(100), d(100);
    if (world.rank() == 1) {  // calls nothing, so that every request of rank 0 is still pending
      std::array<float, 1> data{};
      world.receive(std::span<float>(data), 0);
    }
    struct count_at_end {
      thread_communicator& group;
      std::atomic<std::uint64_t>& barriers;
      ~count_at_end() { barriers = group.counters()[operation::barrier].calls; }
    } const count{world, barriers[0]};
    thread_communicator other = world.subset(std::array<std::size_t, 2>{0, 1}, "other");
    barrier_at_end const end{world, refused};
    thread_handle const send = other.send_async(std::span(a), 1);
    thread_handle const receive = world.receive_async(std::span(b), 1);
    thread_handle const first = world.all_reduce_async(std::span(c));
    thread_handle const second = other.all_reduce_async(std::span(d));
    std::this_thread::sleep_for(milliseconds(20));
    throw std::runtime_error("the first error");
  });
  CHECK(since(start) < milliseconds(5000));
  CHECK(refused == 1);
  CHECK(barriers[0] == 0);
  check_all(texts, {"the first error"});
  CHECK(texts[1] == "rank 0 failed: the first error");
}

TEST_CASE("a rank that swallows the exception cannot go on after an abandoned operation (HT-2)") {
  watchdog const guard;
  std::atomic<bool> abandoned = false;  // before that, a barrier and an all-reduce do not belong together
  auto const texts = seen<rank_failed>(2, [&](thread_communicator& world) {
    std::vector<float> data(8), other(8);
    if (world.rank() == 0) {
      try {
        thread_handle const pending = world.all_reduce_async(std::span(data));
        throw std::runtime_error("swallowed");
      } catch (std::runtime_error const&) {
      }
      abandoned = true;
    }
    while (!abandoned) std::this_thread::yield();
    world.barrier();
  });
  check_all(texts, {"rank 0 failed", "unfinished all_reduce", "\"world\""});
}

TEST_CASE("a handle that nobody waited for waits when it ends, and so does an overwritten one") {
  watchdog const guard;
  std::atomic<int> wrong{0};
  run_threads(2, [&](thread_communicator& world) {
    std::vector<int> data(50, 1), next(50, 2);
    {
      thread_handle pending = world.all_reduce_async(std::span(data));
      pending = world.all_reduce_async(std::span(next));
      if (data != std::vector<int>(50, 2)) ++wrong;
    }
    if (next != std::vector<int>(50, 4)) ++wrong;
  });
  CHECK(wrong == 0);
}

TEST_CASE("a missing peer is a timeout for the caller, and every later call throws at once (HT-3)") {
  watchdog const guard;
  std::atomic<long long> waited{0}, again{0};
  int updates = 0;
  std::string text;
  try {
    run_threads(2,
                [&](thread_communicator& world) {
                  thread_communicator data = world.split(0, world.rank(), "dp");
                  if (world.rank() == 1) {
                    std::this_thread::sleep_for(milliseconds(3000));
                    return;
                  }
                  std::vector<float> gradient(8);
                  auto const start = steady_clock::now();
                  CHECK_THROWS_AS(data.all_reduce(std::span(gradient)), operation_timeout);
                  waited = since(start).count();
                  auto const later = steady_clock::now();
                  for (int i = 0; i < 100; ++i)
                    CHECK_THROWS_AS(data.all_reduce(std::span(gradient)), operation_timeout);
                  CHECK_THROWS_AS(world.barrier(), operation_timeout);
                  CHECK_THROWS_AS(static_cast<void>(data.send_async(std::span(gradient), 1)), operation_timeout);
                  again = since(later).count();
                  data.all_reduce(std::span(gradient));
                  ++updates;
                },
                {.timeout = milliseconds(1000)});
  } catch (operation_timeout const& e) {
    text = e.what();
  }
  CHECK(waited >= 1000);
  CHECK(waited < 2000);
  CHECK(again < 500);
  CHECK(updates == 0);
  for (char const* part :
       {"\"dp\"", "all_reduce of 8 float32 (sum)", "1000 ms", "not arrived: rank 1", "rank 0 in call 1"})
    CHECK_MESSAGE(has(text, part), text);
}

TEST_CASE("a receive without a send, and an asynchronous operation without a peer, time out too (HT-3)") {
  watchdog const guard;
  thread_options const options{.timeout = milliseconds(200)};
  auto const late = [](thread_communicator& world) {
    std::this_thread::sleep_for(milliseconds(600));
    world.barrier();
  };
  check_all(seen<operation_timeout>(
                2,
                [&](thread_communicator& world) {
                  std::vector<int> data(3);
                  if (world.rank() == 1) return late(world);
                  world.receive(std::span(data), 1);
                },
                options),
            {"rank 0 receives 3 int32 from rank 1", "\"world\"", "200 ms"});
  check_all(seen<operation_timeout>(
                2,
                [&](thread_communicator& world) {
                  std::vector<int> data(3);
                  if (world.rank() == 1) return late(world);
                  world.all_reduce_async(std::span(data)).wait();
                },
                options),
            {"all_reduce of 3 int32 (sum)", "not arrived: rank 1", "200 ms"});
}

TEST_CASE("ranks with unlike numbers of calls are told both numbers (UN-2)") {
  watchdog const guard;
  auto const start = steady_clock::now();
  auto const texts = seen<rank_left>(2, [](thread_communicator& world) {
    std::vector<float> gradient(4);
    for (std::size_t batch = 0; batch < 3 - world.rank(); ++batch) world.all_reduce(std::span(gradient));
  });
  CHECK(since(start) < milliseconds(5000));
  for (std::string const& text : {texts[0], texts[2]}) {
    CHECK_MESSAGE(has(text, "rank 0 in call 3, all_reduce of 4 float32"), text);
    CHECK_MESSAGE(has(text, "rank 1 (after 2 calls, returned from its function)"), text);
  }
  // where both go on to another call, both are told
  check_all(seen<call_mismatch>(2,
                                [](thread_communicator& world) {
                                  std::vector<float> gradient(4);
                                  for (std::size_t batch = 0; batch < 3 - world.rank(); ++batch)
                                    world.all_reduce(std::span(gradient));
                                  world.barrier();
                                }),
            {"rank 0 calls all_reduce of 4 float32 (sum) (its call 3)", "rank 1 calls barrier (its call 3)"});
}

TEST_CASE("a transfer with a rank that has returned is refused") {
  watchdog const guard;
  for (int delay : {0, 50}) {
    auto const texts = seen<rank_left>(2, [delay](thread_communicator& world) {
      std::vector<float> data(4);
      std::this_thread::sleep_for(milliseconds(world.rank() == 1 ? delay : 20));
      if (world.rank() == 0) world.send(std::span(data), 1);
    });
    CHECK_MESSAGE(has(texts[0], "rank 0 sends 4 float32 to rank 1, but rank 1 has returned"), texts[0]);
    CHECK(texts[2] == texts[0]);
  }
}

TEST_CASE("the same arguments are required of all ranks, of each rank's own too") {
  watchdog const guard;
  std::array<float, 12> a{};
  std::array<float, 12> b{};
  auto const refused = [&](auto call, std::vector<std::string> parts) {
    parts.push_back("rank 1 failed");
    check_all(seen<rank_failed>(2,
                                [&](thread_communicator& world) {
                                  if (world.rank() == 1) call(world);
                                  world.barrier();
                                }),
              parts);
  };
  std::span<float> const x(a);
  std::span<float> const y(b);
  refused([&](auto& w) { w.reduce_scatter(x, y.first(5)); }, {"reduce_scatter", "out has 5", "in has 12", "has 6"});
  refused([&](auto& w) { w.all_gather(x.first(7), y); }, {"all_gather", "in has 7", "has 6"});
  refused([&](auto& w) { w.all_gather(x.first(6), x); }, {"all_gather", "overlap"});
  std::array<gather_part<float>, 2> const overlapping{{{y.first(3), x.first(6)}, {x.subspan(6, 3), x.subspan(6, 6)}}};
  refused([&](auto& w) { w.all_gather(gather_parts(overlapping)); }, {"part 1 of 2: in and out overlap"});
  // Each part is right by itself.
  std::array<float, 6> c{};
  std::span<float> const z(c);
  for (std::array<gather_part<float>, 2> const& both :
       {std::array<gather_part<float>, 2>{{{y.first(3), x.first(6)}, {z.first(3), x.first(6)}}},
        {{{y.first(3), x.first(6)}, {x.first(3), z}}},
        {{{x.first(3), z}, {y.first(3), x.first(6)}}}})
    refused([&](auto& w) { w.all_gather(gather_parts(both)); }, {"parts 0 and 1 of 2 overlap"});
  std::array<gather_part<float>, 2> const uneven{{{y.first(3), x.first(6)}, {y.first(2), z}}};
  refused([&](auto& w) { w.all_gather(gather_parts(uneven)); }, {"part 1 of 2: in has 2", "has 3"});
  refused([&](auto& w) { w.reduce_scatter(x, x.first(6)); }, {"reduce_scatter", "overlap"});
  refused([&](auto& w) { w.all_to_all(x.first(3), y.first(3)); }, {"all_to_all", "in has 3", "multiple of 2"});
  refused([&](auto& w) { w.all_to_all(x, x); }, {"all_to_all", "overlap"});
  std::array<std::size_t, 2> const short_list{5, 6};
  std::array<std::size_t, 2> const good_list{6, 6};
  refused([&](auto& w) { w.all_to_all(x, short_list, y, good_list); }, {"send_counts", "sum 11"});
  refused([&](auto& w) { w.broadcast(x, 2); }, {"broadcast", "root is 2", "2 ranks"});
  refused([&](auto& w) { w.send(x, 2); }, {"send", "destination is 2"});
  refused([&](auto& w) { w.receive(x, 1); }, {"receive", "cannot exchange with itself"});
  std::array<std::size_t, 1> const without{0};
  std::array<std::size_t, 2> const twice{1, 1};
  std::array<std::size_t, 2> const far{1, 7};
  refused([&](auto& w) { static_cast<void>(w.subset(without)); }, {"{0}", "not in it"});
  refused([&](auto& w) { static_cast<void>(w.subset(twice)); }, {"{1, 1}", "twice"});
  refused([&](auto& w) { static_cast<void>(w.subset(far)); }, {"member", "is 7"});
}

TEST_CASE("a run needs a rank and a positive timeout") {
  auto const nothing = [](thread_communicator&) {};
  CHECK_THROWS_WITH_AS(run_threads(0, nothing), "run_threads: ranks is 0; pass at least 1", heddle::error);
  CHECK_THROWS_AS(run_threads(1, nothing, {.timeout = milliseconds(0)}), heddle::error);
}

TEST_CASE("a communicator that outlives its run refuses calls") {
  watchdog const guard;
  std::vector<thread_communicator> kept;
  run_threads(1, [&](thread_communicator& world) { kept.push_back(world.split(0, 0, "kept")); });
  CHECK_THROWS_AS(kept[0].barrier(), communication_error);
}

#if defined(__unix__)
TEST_CASE("what ranks have printed arrives, though nobody catches and the program is aborted") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  std::fflush(stdout);
  pid_t const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);  // the test program's own handler would report a crash
    dup2(ends[1], STDOUT_FILENO);
    std::setvbuf(stdout, nullptr, _IOFBF, 4096);
    [&]() noexcept {
      run_threads(2, [](thread_communicator& world) {
        if (world.rank() == 0) std::printf("printed before");
        world.barrier();
        if (world.rank() == 1) throw std::runtime_error("broken");
      });
    }();
    std::_Exit(0);
  }
  close(ends[1]);
  std::string said;
  char some[64];
  for (ssize_t got = 0; (got = read(ends[0], some, sizeof some)) > 0;) said.append(some, static_cast<std::size_t>(got));
  close(ends[0]);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFSIGNALED(status));
  CHECK(said == "printed before");
}
#endif

}  // namespace thread_failures_test
