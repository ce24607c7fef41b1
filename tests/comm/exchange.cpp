// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <heddle/comm/tcp_exchange.hpp>
#include <heddle/comm/thread_exchange.hpp>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "watchdog.hpp"

namespace exchange {

using namespace heddle::comm;
using namespace std::chrono_literals;
using heddle::testing::watchdog;

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

std::vector<std::byte> bytes_of(std::string const& text) {
  auto const* const data = reinterpret_cast<std::byte const*>(text.data());
  return {data, data + text.size()};
}
std::string text_of(std::vector<std::byte> const& bytes) {
  return {reinterpret_cast<char const*>(bytes.data()), bytes.size()};
}
template <class Body>
std::string failure_of(Body const& body) {
  try {
    body();
  } catch (heddle::error const& one) {
    return one.what();
  }
  return {};
}

/// `body(rank)` on a thread each; what each threw.
std::vector<std::string> on_threads(std::size_t ranks, std::function<void(std::size_t)> const& body) {
  std::vector<std::string> texts(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r) threads.emplace_back([&, r] { texts[r] = failure_of([&] { body(r); }); });
  for (std::thread& one : threads) one.join();
  return texts;
}

launch at(std::size_t rank, std::size_t size, std::uint16_t port) {
  return {{.rank = rank, .size = size, .local_rank = rank}, "127.0.0.1", port};
}

/// `body(exchange)` on `ranks` ranks over TCP.
std::vector<std::string> over_tcp(std::size_t ranks, std::chrono::milliseconds limit,
                                  std::function<void(rank_exchange&)> const& body) {
  tcp_listener listener("127.0.0.1", 0);
  std::uint16_t const port = listener.port();
  return on_threads(ranks, [&](std::size_t r) {
    std::optional<tcp_listener> mine;
    if (r == 0) mine.emplace(std::move(listener));
    tcp_exchange one(at(r, ranks, port), std::move(mine), limit);
    body(one);
  });
}
std::vector<std::string> over_threads(std::size_t ranks, std::chrono::milliseconds limit,
                                      std::function<void(rank_exchange&)> const& body) {
  auto const all = thread_exchange::of_threads(ranks, limit);
  return on_threads(ranks, [&](std::size_t r) { body(*(*all)[r]); });
}

template <class Body>
void on_both(std::size_t ranks, std::chrono::milliseconds limit, Body const& body,
             std::function<void(std::vector<std::string> const&)> const& check) {
  watchdog const limits;
  check(over_threads(ranks, limit, body));
  check(over_tcp(ranks, limit, body));
}
void no_failure(std::vector<std::string> const& texts) {
  for (std::string const& one : texts) CHECK(one == "");
}

TEST_CASE("rank 0's bytes reach all") {
  for (std::size_t const ranks : {1U, 2U, 5U})
    on_both(
        ranks, 10s,
        [](rank_exchange& mine) {
          std::array<std::byte, 128> id{};
          for (std::size_t i = 0; i < id.size(); ++i)
            if (mine.place().rank == 0) id[i] = static_cast<std::byte>(i * 7);
          mine.broadcast("id", id);
          for (std::size_t i = 0; i < id.size(); ++i)
            if (id[i] != static_cast<std::byte>(i * 7)) throw heddle::error("wrong bytes");
        },
        no_failure);
}

TEST_CASE("every rank mails every rank, in order, by name") {
  on_both(
      4, 10s,
      [](rank_exchange& mine) {
        std::size_t const me = mine.place().rank;
        for (std::size_t to = 0; to < 4; ++to)
          for (int i = 0; i < 3; ++i)
            for (std::string const name : {"a", "b"})
              mine.mail(to, name, bytes_of(name + std::to_string(10 * me + to) + std::to_string(i)));
        for (std::string const name : {"b", "a"})
          for (std::size_t from = 0; from < 4; ++from)
            for (int i = 0; i < 3; ++i)
              if (text_of(mine.take(from, name)) != name + std::to_string(10 * from + me) + std::to_string(i))
                throw heddle::error("another message");
        if (mine.poll(0, "a")) throw heddle::error("one too many");
      },
      no_failure);
}

TEST_CASE("a large message, and a name of nothing") {
  on_both(
      3, 10s,
      [](rank_exchange& mine) {
        std::string const large(std::size_t{1} << 20, 'x');
        if (mine.place().rank == 1) {
          mine.mail(2, "", bytes_of(large));
          mine.mail(2, "", {});
        }
        if (mine.place().rank == 2 && (text_of(mine.take(1, "")) != large || !mine.take(1, "").empty()))
          throw heddle::error("another message");
      },
      no_failure);
}

TEST_CASE("a rank's failure is told to all, the first one") {
  on_both(
      4, 20s,
      [](rank_exchange& mine) {
        if (mine.place().rank == 2)
          mine.fail({detail::failure_kind::rank, 2, "rank 2 failed: the disk is full", nullptr});
        (void)mine.take((mine.place().rank + 1) % 4, "never");
      },
      [](std::vector<std::string> const& texts) {
        for (std::string const& one : texts) CHECK(one == "rank 2 failed: the disk is full");
      });
}

TEST_CASE("a failure keeps its kind and rank on the way") {
  watchdog const limits;
  std::vector<std::string> const texts = over_tcp(3, 20s, [](rank_exchange& mine) {
    // Whoever is not here yet is told so by its constructor.
    if (mine.place().rank == 1) {
      for (std::size_t const from : {0U, 2U}) (void)mine.take(from, "here");
      mine.fail({detail::failure_kind::rank, 1, "gone", nullptr});
    } else {
      mine.mail(1, "here", {});
    }
    try {
      (void)mine.take(0, "never");
    } catch (rank_failed const& one) {
      if (one.rank() != 1) throw heddle::error("another rank");
    }
  });
  no_failure(texts);
}

TEST_CASE("who waits too long says for what") {
  on_both(
      2, 300ms,
      [](rank_exchange& mine) {
        if (mine.place().rank == 1) (void)mine.take(0, "the id of \"dp\"");
        if (mine.place().rank == 0) (void)mine.take(1, "else");
      },
      [](std::vector<std::string> const& texts) {
        for (std::string const& one : texts) CHECK(has(one, " waited 300 ms for '"));
      });
}

TEST_CASE("calls that no rank may make") {
  auto const all = thread_exchange::of_threads(2, 1s);
  CHECK(has(failure_of([&] { (*all)[0]->mail(2, "x", {}); }), "mail names rank 2, but there are 2"));
  CHECK(has(failure_of([&] { (void)(*all)[0]->take(7, "x"); }), "take names rank 7, but there are 2"));
  CHECK(has(failure_of([] { (void)thread_exchange::of_threads(2, 0ms); }), "the limit is 0 ms; it must be positive"));
  std::array<std::byte, 3> three{};
  (*all)[0]->mail(1, "x", bytes_of("four"));
  CHECK(has(failure_of([&] { (*all)[1]->broadcast("x", three); }), "has 4 bytes, and rank 1 expects 3"));
}

// ---- processes

#ifndef __SANITIZE_THREAD__  // which knows no threads of a process that was forked from one with threads
/// Runs `body` in a process of its own, which then ends at once, whatever it holds.
pid_t in_process(std::function<void()> const& body) {
  pid_t const child = ::fork();
  if (child != 0) return child;
  std::string const text = failure_of(body);
  ::_exit(text.empty() ? 0 : 1);
}

TEST_CASE("processes, of which one ends without a word") {
  watchdog const limits;
  tcp_listener listener("localhost", 0);
  std::uint16_t const port = listener.port();
  std::array<std::size_t, 2> const others{1, 2};
  std::array<pid_t, 2> children{};
  for (std::size_t i = 0; i < 2; ++i)
    children[i] = in_process([&] {
      tcp_exchange mine(at(others[i], 3, port), 10s);
      (void)mine.take(0, "go");
      if (others[i] == 2) ::_exit(7);
      (void)mine.take(2, "never");
    });
  std::string const text = failure_of([&] {
    tcp_exchange mine(at(0, 3, port), std::move(listener), 10s);
    for (std::size_t const one : others) mine.mail(one, "go", {});
    (void)mine.take(2, "never");
  });
  CHECK(has(text, "rank 2 (127.0.0.1:"));
  CHECK(has(text, ") is gone: its connection closed before it returned; see its own output"));
  std::array<int, 2> status{};
  for (std::size_t i = 0; i < 2; ++i) ::waitpid(children[i], &status[i], 0);
  CHECK(WEXITSTATUS(status[0]) == 1);  // it was told
  CHECK(WEXITSTATUS(status[1]) == 7);
}

TEST_CASE("processes, of which rank 0 ends without a word") {
  watchdog const limits;
  tcp_listener listener("localhost", 0);
  std::uint16_t const port = listener.port();
  pid_t const child = in_process([&] {
    tcp_exchange mine(at(0, 2, port), std::move(listener), 10s);
    (void)mine.take(1, "go");
    ::_exit(0);
  });
  listener = tcp_listener("localhost", 0);  // closed here
  std::string const text = failure_of([&] {
    tcp_exchange mine(at(1, 2, port), 10s);
    mine.mail(0, "go", {});
    (void)mine.take(0, "never");
  });
  CHECK(
      has(text, "rank 0 at 127.0.0.1:" + std::to_string(port) + " is gone: its connection closed before it returned"));
  ::waitpid(child, nullptr, 0);
}
#endif

TEST_CASE("rank 0 stays until the others have returned") {
  watchdog const limits;
  no_failure(over_tcp(3, 10s, [](rank_exchange& mine) {
    if (mine.place().rank == 0) return;
    std::this_thread::sleep_for(200ms);
    std::size_t const other = 3 - mine.place().rank;
    mine.mail(other, "late", bytes_of("x"));
    (void)mine.take(other, "late");
  }));
}

}  // namespace exchange
