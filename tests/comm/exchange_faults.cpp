// SPDX-License-Identifier: Apache-2.0
// What can go wrong while processes find each other, over real sockets.
#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <functional>
#include <heddle/comm/tcp_exchange.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "watchdog.hpp"

namespace exchange_faults {

using namespace heddle::comm;
using namespace std::chrono_literals;
using heddle::testing::watchdog;

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

std::string failure_of(std::function<void()> const& body) {
  try {
    body();
  } catch (heddle::error const& one) {
    return one.what();
  }
  return {};
}

struct member {
  std::size_t rank = 0, size = 2;
};

/// One exchange for each, rank 0 first, at one port; `beside(port)` meanwhile. What each threw.
std::vector<std::string> meet(std::vector<member> const& all, std::chrono::milliseconds limit,
                              std::function<void(std::uint16_t)> const& beside = {}, bool stays = false) {
  tcp_listener listener("127.0.0.1", 0);
  std::uint16_t const port = listener.port();
  std::vector<std::string> texts(all.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < all.size(); ++i)
    threads.emplace_back([&, i] {
      texts[i] = failure_of([&] {
        std::optional<tcp_listener> mine;
        if (i == 0) mine.emplace(std::move(listener));
        std::this_thread::sleep_for(i * 50ms);
        tcp_exchange one({{all[i].rank, all[i].size, 0}, "127.0.0.1", port}, std::move(mine), limit);
        if (stays) (void)one.take(0, "never");
      });
    });
  if (beside) beside(port);
  for (std::thread& one : threads) one.join();
  return texts;
}

/// A connection with a port of this machine, that says something.
struct stranger {
  stranger() : socket(::socket(AF_INET, SOCK_STREAM, 0)) {}
  explicit stranger(std::uint16_t port) : stranger() { connect(port); }
  void connect(std::uint16_t port) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(::connect(socket.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0);
  }
  void say(std::string const& text) const {
    CHECK(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  /// What comes until the other side closes, or `most` bytes have.
  [[nodiscard]] std::string heard(std::size_t most) const {
    std::string all;
    char one = 0;
    while (all.size() < most && ::recv(socket.get(), &one, 1, 0) == 1) all += one;
    return all;
  }
  detail::descriptor socket;
};

TEST_CASE("a rank that never comes is named by all") {
  watchdog const limits;
  for (std::string const& one : meet({{0, 4}, {1, 4}, {3, 4}}, 500ms))
    CHECK(has(one, "rank 0 waited 500 ms for rank 2 of 4 to connect at port "));
}

TEST_CASE("of many that never come, some are named and all counted") {
  watchdog const limits;
  std::vector<std::string> const texts = meet({{0, 100}}, 100ms);
  CHECK(has(texts[0], "for ranks 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, … (99 in all) of 100"));
}

TEST_CASE("two processes of one rank") {
  watchdog const limits;
  for (std::string const& one : meet({{0, 4}, {2, 4}, {2, 4}}, 10s)) {
    CHECK(has(one, "two processes are rank 2: the one at 127.0.0.1:"));
    CHECK(has(one, "; give each its own RANK, and each run its own MASTER_PORT"));
  }
}

TEST_CASE("unequal sizes of the run") {
  watchdog const limits;
  for (std::string const& one : meet({{0, 4}, {1, 4}, {1, 2}}, 10s))
    CHECK(has(one, "says that the run has 2 ranks, and rank 0 that it has 4; give all one size (WORLD_SIZE)"));
}

TEST_CASE("a port that is taken") {
  tcp_listener const other("127.0.0.1", 0);
  std::string const text = failure_of([&] { tcp_exchange const one({{0, 2, 0}, "127.0.0.1", other.port()}, 1s); });
  CHECK(has(text, "rank 0 cannot listen at port " + std::to_string(other.port()) + " of '127.0.0.1' ("));
  CHECK(has(text, "end what holds the port, or give another in MASTER_PORT or HEDDLE_PORT"));
}

TEST_CASE("a second rank 0, where the port can be shared") {
  watchdog const limits;
  std::vector<std::string> const texts = meet({{0, 3}, {1, 3}}, 10s, [](std::uint16_t port) {
    std::this_thread::sleep_for(200ms);  // rank 1 is there
    stranger const late(port);
    late.say(detail::hello_of(0, 3));
    CHECK(has(late.heard(10000), "two processes are rank 0"));
  });
  for (std::string const& one : texts) CHECK(has(one, "two processes are rank 0: the one at 127.0.0.1:"));
}

TEST_CASE("a host that has no address") {
  std::string const text = failure_of([] { tcp_exchange const one({{1, 2, 0}, "no-such-host.invalid", 4000}, 1s); });
  CHECK(has(text, "the machine of rank 0, 'no-such-host.invalid', has no address ("));
}

TEST_CASE("nobody listens") {
  watchdog const limits;
  std::uint16_t const port = tcp_listener("127.0.0.1", 0).port();  // and closed
  std::string const text = failure_of([&] { tcp_exchange const one({{1, 2, 0}, "127.0.0.1", port}, 300ms); });
  CHECK(has(text, "rank 0 at 127.0.0.1:" + std::to_string(port) +
                      " could not be reached within 300 ms (Connection "
                      "refused); start rank 0 there"));
}

/// Somebody listens who is no rank 0, and does `answers` with the first connection.
std::string rank_1_meets(std::function<void(int)> const& answers) {
  tcp_listener const other("127.0.0.1", 0);
  std::thread server([&] {
    pollfd one{other.get(), POLLIN, 0};
    ::poll(&one, 1, 10000);
    detail::descriptor const socket(::accept(other.get(), nullptr, nullptr));
    answers(socket.get());
  });
  std::string const text = failure_of([&] { tcp_exchange const one({{1, 2, 0}, "127.0.0.1", other.port()}, 300ms); });
  server.join();
  return text;
}
void say(int socket, std::string const& text) { (void)::send(socket, text.data(), text.size(), MSG_NOSIGNAL); }
void until_closed(int socket) {
  char one = 0;
  while (::recv(socket, &one, 1, 0) == 1) {
  }
}

TEST_CASE("somebody else listens") {
  watchdog const limits;
  CHECK(has(rank_1_meets([](int socket) {
              say(socket, "SSH-2.0-OpenSSH_9.2\r\n");
              until_closed(socket);
            }),
            "is no heddle process of this version; give a port that nobody else uses"));
  CHECK(has(rank_1_meets([](int) {}), "closed the connection without a word; check MASTER_ADDR and MASTER_PORT"));
  CHECK(has(rank_1_meets(until_closed), "did not say within 300 ms that all ranks are there"));
  CHECK(has(rank_1_meets([](int socket) {
              say(socket, std::string(detail::wire_magic) + std::string(100, '\xff'));
              until_closed(socket);
            }),
            "sent what no heddle process sends; run one program of one version"));
  CHECK(has(rank_1_meets([](int socket) { say(socket, std::string(detail::wire_magic)); }),
            "is gone: its connection closed before it returned"));
}

TEST_CASE("strangers do not disturb, and are told of where a rank is missing") {
  watchdog const limits;
  auto const knock = [](std::uint16_t port) {
    stranger const silent(port);
    stranger const web(port);
    web.say("GET / HTTP/1.1\r\n\r\n");
    CHECK(web.heard(1000) == detail::wire_magic);
    stranger const part(port);
    part.say("hed");
    std::this_thread::sleep_for(300ms);
  };
  for (std::string const& one : meet({{0, 3}, {1, 3}, {2, 3}}, 10s, knock)) CHECK(one == "");
  std::vector<std::string> const texts = meet({{0, 3}, {1, 3}}, 500ms, knock);
  for (std::string const& one : texts) {
    CHECK(has(one, "rank 0 waited 500 ms for rank 2 of 3"));
    CHECK(has(one, "; 1 connection spoke something else, the last from 127.0.0.1:"));
  }
}

TEST_CASE("ranks that break the rules end the run, and nothing of theirs is used") {
  watchdog const limits;
  auto const ends_by = [](std::string const& bytes) {
    std::vector<std::string> const texts = meet(
        {{0, 3}, {1, 3}}, 10s,
        [&](std::uint16_t port) {
          std::this_thread::sleep_for(200ms);  // rank 1 is there
          stranger const bad(port);
          bad.say(detail::hello_of(2, 3) + bytes);
          (void)bad.heard(100000);
        },
        true);
    for (std::string const& one : texts) CHECK(has(one, "rank 2 (127.0.0.1:"));
    return texts[0];
  };
  using detail::frame;
  using detail::frame_type;
  auto const broken = "sent rank 0 what no heddle process sends";
  std::string huge = detail::bytes_of(frame{.from = 2, .to = 1, .name = "x"});
  huge[19] = '\x7f';  // content of 2 GB
  CHECK(has(ends_by(huge), broken));
  CHECK(has(ends_by(std::string(20, '\0')), broken));
  CHECK(has(ends_by(detail::bytes_of(frame{.from = 1, .to = 0, .name = "x"})), broken));  // in another's name
  CHECK(has(ends_by(detail::bytes_of(frame{.from = 2, .to = 3, .name = "x"})), broken));  // to nobody
  CHECK(has(ends_by(detail::bytes_of(frame{.type = frame_type::welcome})), broken));
}

TEST_CASE("a rank that says a rank beyond the size") {
  watchdog const limits;
  std::vector<std::string> const texts = meet({{0, 3}}, 10s, [](std::uint16_t port) {
    stranger const bad(port);
    bad.say(detail::hello_of(9, 3));
    (void)bad.heard(100000);
  });
  CHECK(has(texts[0], "says that it is rank 9 of 3; ranks begin at 0"));
}

TEST_CASE("who comes when the run is complete is sent away, and the run goes on") {
  watchdog const limits;
  tcp_listener listener("127.0.0.1", 0);
  std::uint16_t const port = listener.port();
  std::string first, second;
  std::thread other([&] {
    second = failure_of([&] {
      tcp_exchange mine({{1, 2, 0}, "127.0.0.1", port}, 10s);
      (void)mine.take(0, "end");
    });
  });
  first = failure_of([&] {
    tcp_exchange mine({{0, 2, 0}, "127.0.0.1", port}, std::move(listener), 10s);
    std::string const late = failure_of([&] { tcp_exchange const again({{1, 2, 0}, "127.0.0.1", port}, 10s); });
    CHECK(has(late, "two processes are rank 1"));
    mine.mail(1, "end", {});
  });
  other.join();
  CHECK(first == "");
  CHECK(second == "");
}

TEST_CASE("who was sent away reaches nobody, whatever it says") {
  watchdog const limits;
  using detail::frame;
  using detail::frame_type;
  for (std::string const& more :
       {detail::bytes_of(frame{.from = 1, .to = 0, .name = "word", .content = "of the wrong one"}),
        detail::bytes_of(frame{.from = 1, .to = 2, .name = "word", .content = "of the wrong one"}),
        detail::bytes_of(frame{.type = frame_type::failure, .from = 1, .content = "made up"}),
        detail::bytes_of(frame{.type = frame_type::leave, .from = 1}), std::string(100, '\xff')}) {
    tcp_listener listener("127.0.0.1", 0);
    std::uint16_t const port = listener.port();
    auto const text_of = [](rank_exchange::bytes const& got) {
      return std::string(reinterpret_cast<char const*>(got.data()), got.size());
    };
    std::array<std::string, 3> texts;
    auto const rank = [&](std::size_t r) {
      texts[r] = failure_of([&] {
        std::optional<tcp_listener> mine;
        if (r == 0) mine.emplace(std::move(listener));
        tcp_exchange one({{r, 3, 0}, "127.0.0.1", port}, std::move(mine), 10s);
        if (r == 1) {
          (void)one.take(0, "go");
          std::string const word = "of rank 1";
          for (std::size_t to : {0U, 2U}) one.mail(to, "word", std::as_bytes(std::span(word.data(), word.size())));
          (void)one.take(0, "end");
          return;
        }
        if (r == 0) {
          stranger const wrong(port);
          wrong.say(detail::hello_of(1, 3));
          CHECK(has(wrong.heard(100000), "two processes are rank 1"));  // and no more
          wrong.say(more);
          std::this_thread::sleep_for(100ms);
          one.mail(1, "go", {});
        }
        CHECK(text_of(one.take(1, "word")) == "of rank 1");
        if (r == 0)
          for (std::size_t to : {1U, 2U}) one.mail(to, "end", {});
        else
          (void)one.take(0, "end");
        CHECK(!one.poll(1, "word"));
      });
    };
    std::thread first(rank, 1), second(rank, 2);
    rank(0);
    first.join();
    second.join();
    for (std::string const& one : texts) CHECK(one == "");
  }
}

TEST_CASE("who says nothing is sent away when the limit is over") {
  watchdog const limits;
  std::vector<std::string> const texts = meet({{0, 2}, {1, 2}}, 400ms, {}, false);
  for (std::string const& one : texts) CHECK(one == "");
  tcp_listener listener("127.0.0.1", 0);
  std::uint16_t const port = listener.port();
  std::thread other([&] {
    CHECK(failure_of([&] {
            tcp_exchange one({{1, 2, 0}, "127.0.0.1", port}, 400ms);
            std::this_thread::sleep_for(2500ms);
          }) == "");
  });
  CHECK(failure_of([&] {
          tcp_exchange one({{0, 2, 0}, "127.0.0.1", port}, std::move(listener), 400ms);
          stranger const silent(port);
          CHECK(silent.heard(1000) == detail::wire_magic);  // until it is closed
        }) == "");
  other.join();
}

TEST_CASE("without a free descriptor rank 0 does not ask in circles, and takes who came when there is one") {
  watchdog const limits;
  tcp_listener listener("127.0.0.1", 0);
  std::uint16_t const port = listener.port();
  std::thread other([&] {
    CHECK(failure_of([&] {
            tcp_exchange one({{1, 2, 0}, "127.0.0.1", port}, 10s);
            (void)one.take(0, "end");
          }) == "");
  });
  CHECK(failure_of([&] {
          tcp_exchange one({{0, 2, 0}, "127.0.0.1", port}, std::move(listener), 10s);
          rlimit before{};
          REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
          stranger late;
          int const first_free = ::dup(late.socket.get());
          REQUIRE(::close(first_free) == 0);
          rlimit const full{static_cast<rlim_t>(first_free), before.rlim_max};
          REQUIRE(::setrlimit(RLIMIT_NOFILE, &full) == 0);
          std::clock_t const start = std::clock();
          late.connect(port);
          std::this_thread::sleep_for(1s);
          double const used = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
          REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
          CHECK(used < 0.2);
          CHECK(late.heard(detail::wire_magic.size()) == detail::wire_magic);
          one.mail(1, "end", {});
        }) == "");
  other.join();
}

void no_action(int) {}

TEST_CASE("a connection that is interrupted while it is made is not taken for one that is there") {
  watchdog const limits;
  struct sigaction how {};
  how.sa_handler = &no_action;  // and no SA_RESTART
  REQUIRE(::sigaction(SIGUSR1, &how, nullptr) == 0);
  // A listener that takes nobody, whose queue is full: who comes then has no answer.
  detail::descriptor const full(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  REQUIRE(::bind(full.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(::listen(full.get(), 0) == 0);
  REQUIRE(::getsockname(full.get(), reinterpret_cast<sockaddr*>(&at), &size) == 0);
  std::vector<detail::descriptor> fill;
  for (int i = 0; i < 4; ++i) {
    fill.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    (void)::connect(fill.back().get(), reinterpret_cast<sockaddr*>(&at), sizeof(at));
  }
  std::atomic<bool> over{false};
  std::string text;
  std::thread joiner([&] {
    text = failure_of([&] { tcp_exchange const one({{1, 2, 0}, "127.0.0.1", ntohs(at.sin_port)}, 700ms); });
    over = true;
  });
  while (!over) {  // its side runs on a thread that nobody else knows
    std::this_thread::sleep_for(5ms);
    for (auto const& task : std::filesystem::directory_iterator("/proc/self/task"))
      (void)::syscall(SYS_tgkill, ::getpid(), std::stoi(task.path().filename().string()), SIGUSR1);
  }
  joiner.join();
  CHECK(has(text, "could not be reached within 700 ms (Connection timed out)"));
}

}  // namespace exchange_faults
