// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank that throws, stalls, leaves or disagrees ends the others with an error that says so (known faults HT, NC, UN):
// on ranks of any kind.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ranks.hpp"

namespace heddle::testing {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

inline bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

inline milliseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

/// Runs `body` on every rank. Returns what each rank saw (empty where nothing was thrown), and as the last entry what
/// the run threw, which must be an `Error`.
template <class Ranks, class Error, class Body>
std::vector<std::string> seen(std::size_t ranks, Body body, comm::thread_options options = {}) {
  std::vector<std::string> texts(ranks + 1);
  try {
    Ranks::run(
        ranks,
        [&](typename Ranks::communicator& world) {
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
inline void check_all(std::vector<std::string> const& texts, std::vector<std::string> const& parts) {
  for (std::string const& text : texts) {
    CAPTURE(text);
    for (std::string const& part : parts) CHECK_MESSAGE(has(text, part), part);
  }
}

/// A rank that throws ends ranks in every kind of call, with its text (HT-1).
template <class Ranks>
void check_a_rank_that_throws() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  using handle = typename Ranks::handle;
  auto const start = steady_clock::now();
  std::array<std::string, 4> texts;
  try {
    Ranks::run(4, [&](communicator& world) {
      array<Ranks, float> const data(4), other(4);
      try {
        if (world.rank() == 0) world.all_reduce(data.span());
        if (world.rank() == 1) {
          std::this_thread::sleep_for(milliseconds(50));
          throw std::runtime_error("backward of micro-batch 2 met a NaN");
        }
        if (world.rank() == 2) world.receive(data.span(), 1);
        if (world.rank() == 3) {
          handle one = world.receive_async(data.span(), 1);
          handle two = world.all_reduce_async(other.span());
          two.wait();
        }
      } catch (rank_failed const& e) {
        if (e.rank() == 1) texts[world.rank()] = e.what();
        throw;
      }
    });
    FAIL("the run returned");
  } catch (rank_failed const& e) {
    CHECK(e.rank() == 1);
    texts[1] = e.what();
    CHECK_THROWS_WITH_AS(std::rethrow_exception(e.cause()), "backward of micro-batch 2 met a NaN", std::runtime_error);
  }
  CHECK(since(start) < milliseconds(5000));
  for (std::string const& text : texts) CHECK(text == "rank 1 failed: backward of micro-batch 2 met a NaN");

  std::atomic<int> sum{0};  // a fresh group works afterwards
  Ranks::run(4, [&](communicator& world) {
    array<Ranks, int> const one(1, 1);
    world.all_reduce(one.span());
    sum += one.first();
  });
  CHECK(sum == 16);
}

/// A failure reaches other groups, later calls, and things that are no std::exception.
template <class Ranks>
void check_failure_reaches_all() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  std::atomic<int> threw{0};
  try {
    Ranks::run(4, [&](communicator& world) {
      communicator pair = world.split(world.rank() / 2, world.rank(), "pair");
      if (world.rank() == 3) {
        std::this_thread::sleep_for(milliseconds(50));  // the others have their group, too
        throw 42;
      }
      for (int i = 0; i < 3; ++i) {
        try {
          for (;;) pair.barrier();
        } catch (rank_failed const&) {
          ++threw;
        }
      }
    });
    FAIL("the run returned");
  } catch (rank_failed const& e) {
    CHECK(e.rank() == 3);
    CHECK_THROWS_AS(std::rethrow_exception(e.cause()), int);
  }
  CHECK(threw == 9);
}

/// Nothing is communicated and nothing blocks while an exception unwinds (HT-2).
template <class Ranks>
void check_unwinding() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  using handle = typename Ranks::handle;
  struct barrier_at_end {
    communicator& group;
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
  auto const texts = seen<Ranks, rank_failed>(2, [&](communicator& world) {
    array<Ranks, float> const a(100), b(100), c(100), d(100);
    if (world.rank() == 1) {  // calls nothing, so that every request of rank 0 is still pending
      array<Ranks, float> const data(1);
      world.receive(data.span(), 0);
    }
    struct count_at_end {
      communicator& group;
      std::atomic<std::uint64_t>& barriers;
      ~count_at_end() { barriers = group.counters()[operation::barrier].calls; }
    } const count{world, barriers[0]};
    communicator other = world.subset(std::array<std::size_t, 2>{0, 1}, "other");
    barrier_at_end const end{world, refused};
    handle const send = other.send_async(a.span(), 1);
    handle const receive = world.receive_async(b.span(), 1);
    handle const first = world.all_reduce_async(c.span());
    handle const second = other.all_reduce_async(d.span());
    std::this_thread::sleep_for(milliseconds(20));
    throw std::runtime_error("the first error");
  });
  CHECK(since(start) < milliseconds(5000));
  CHECK(refused == 1);
  CHECK(barriers[0] == 0);
  check_all(texts, {"the first error"});
  CHECK(texts[1] == "rank 0 failed: the first error");
}

/// A rank that swallows the exception cannot go on after an abandoned operation (HT-2).
template <class Ranks>
void check_abandoned_operation() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  using handle = typename Ranks::handle;
  std::atomic<bool> abandoned = false;  // before that, a barrier and an all-reduce do not belong together
  auto const texts = seen<Ranks, rank_failed>(2, [&](communicator& world) {
    array<Ranks, float> const data(8), other(8);
    if (world.rank() == 0) {
      try {
        handle const pending = world.all_reduce_async(data.span());
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

/// A missing peer is a timeout for the caller, and every later call throws at once (HT-3).
template <class Ranks>
void check_missing_peer() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  std::atomic<long long> waited{0}, again{0};
  int updates = 0;
  std::string text;
  try {
    Ranks::run(2,
               [&](communicator& world) {
                 communicator data = world.split(0, world.rank(), "dp");
                 if (world.rank() == 1) {
                   std::this_thread::sleep_for(milliseconds(3000));
                   return;
                 }
                 array<Ranks, float> const gradient(8);
                 auto const start = steady_clock::now();
                 CHECK_THROWS_AS(data.all_reduce(gradient.span()), operation_timeout);
                 waited = since(start).count();
                 auto const later = steady_clock::now();
                 for (int i = 0; i < 100; ++i) CHECK_THROWS_AS(data.all_reduce(gradient.span()), operation_timeout);
                 CHECK_THROWS_AS(world.barrier(), operation_timeout);
                 CHECK_THROWS_AS(static_cast<void>(data.send_async(gradient.span(), 1)), operation_timeout);
                 again = since(later).count();
                 data.all_reduce(gradient.span());
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

/// A receive without a send, and an asynchronous operation without a peer, time out too (HT-3).
template <class Ranks>
void check_other_timeouts() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  thread_options const options{.timeout = milliseconds(200)};
  auto const late = [](communicator& world) {
    std::this_thread::sleep_for(milliseconds(600));
    world.barrier();
  };
  check_all(seen<Ranks, operation_timeout>(
                2,
                [&](communicator& world) {
                  array<Ranks, int> const data(3);
                  if (world.rank() == 1) return late(world);
                  world.receive(data.span(), 1);
                },
                options),
            {"rank 0 receives 3 int32 from rank 1", "\"world\"", "200 ms"});
  check_all(seen<Ranks, operation_timeout>(
                2,
                [&](communicator& world) {
                  array<Ranks, int> const data(3);
                  if (world.rank() == 1) return late(world);
                  world.all_reduce_async(data.span()).wait();
                },
                options),
            {"all_reduce of 3 int32 (sum)", "not arrived: rank 1", "200 ms"});
}

/// Ranks with unlike numbers of calls are told both numbers (UN-2).
template <class Ranks>
void check_unlike_numbers_of_calls() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  auto const start = steady_clock::now();
  auto const texts = seen<Ranks, rank_left>(2, [](communicator& world) {
    array<Ranks, float> const gradient(4);
    for (std::size_t batch = 0; batch < 3 - world.rank(); ++batch) world.all_reduce(gradient.span());
  });
  CHECK(since(start) < milliseconds(5000));
  for (std::string const& text : {texts[0], texts[2]}) {
    CHECK_MESSAGE(has(text, "rank 0 in call 3, all_reduce of 4 float32"), text);
    CHECK_MESSAGE(has(text, "rank 1 (after 2 calls, returned from its function)"), text);
  }
  // where both go on to another call, both are told
  check_all(seen<Ranks, call_mismatch>(2,
                                       [](communicator& world) {
                                         array<Ranks, float> const gradient(4);
                                         for (std::size_t batch = 0; batch < 3 - world.rank(); ++batch)
                                           world.all_reduce(gradient.span());
                                         world.barrier();
                                       }),
            {"rank 0 calls all_reduce of 4 float32 (sum) (its call 3)", "rank 1 calls barrier (its call 3)"});
}

/// A transfer with a rank that has returned is refused.
template <class Ranks>
void check_transfer_with_one_that_returned() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  for (int delay : {0, 50}) {
    auto const texts = seen<Ranks, rank_left>(2, [delay](communicator& world) {
      array<Ranks, float> const data(4);
      std::this_thread::sleep_for(milliseconds(world.rank() == 1 ? delay : 20));
      if (world.rank() == 0) world.send(data.span(), 1);
    });
    CHECK_MESSAGE(has(texts[0], "rank 0 sends 4 float32 to rank 1, but rank 1 has returned"), texts[0]);
    CHECK(texts[2] == texts[0]);
  }
}

/// The same arguments are required of all ranks, of each rank's own too.
template <class Ranks>
void check_arguments() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  std::array<float, 12> a{}, b{};  // of no call that comes to its data
  auto const refused = [&](auto call, std::vector<std::string> parts) {
    parts.push_back("rank 1 failed");
    check_all(seen<Ranks, rank_failed>(2,
                                       [&](communicator& world) {
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

/// A communicator that outlives its run refuses calls.
template <class Ranks>
void check_communicator_that_outlives_its_run() {
  using namespace heddle::comm;
  using communicator = typename Ranks::communicator;
  std::vector<communicator> kept;
  Ranks::run(1, [&](communicator& world) { kept.push_back(world.split(0, 0, "kept")); });
  CHECK_THROWS_AS(kept[0].barrier(), communication_error);
}

}  // namespace heddle::testing
