// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>

#include <heddle/comm/detail/tcp_side.hpp>
#include <heddle/comm/launch.hpp>

namespace heddle::comm::detail {

/// The side of every rank but 0: one connection, with rank 0.
class tcp_spoke : public tcp_side {
 public:
  tcp_spoke(tcp_host& host, launch from, std::chrono::milliseconds limit)
      : tcp_side(host, limit), from_(std::move(from)), addresses_(addresses_of(from_.host, from_.port)) {}

  void run() override {
    if (!connect()) return;
    hub_.out = hello_of(from_.place.rank, from_.place.size);
    for (;;) {
      bool const last = ending();  // asked first: what was sent before it is among the given
      for (frame const& one : given())
        if (!hub_.gone) hub_.out += bytes_of(one);
      hub_.give_out();
      if (last && may_end()) return;
      wait({&hub_}, -1, std::chrono::milliseconds(ready_ && !last ? 1000 : 100));
      read();
      if (hub_.gone) {
        lost();
        return;
      }
      // Rank 0 keeps the limit, too, and knows who is missing: its word comes first.
      if (!ready_ && !host_.over() && clock::now() >= deadline_ + std::chrono::seconds(2))
        fail(failure_kind::timeout, where() + " did not say within " + std::to_string(limit_.count()) +
                                        " ms that all ranks are there; see the output of rank 0, and whether that is "
                                        "who listens there");
    }
  }

 private:
  void fail(failure_kind kind, std::string const& text) { fail(kind, from_.place.rank, text); }
  void fail(failure_kind kind, std::size_t rank, std::string const& text) {
    (void)host_.failure({kind, rank, "rank " + std::to_string(from_.place.rank) + ": " + text, nullptr});
  }
  /// Of one side of a connection; the system's error where it has none.
  template <class Call>
  static int address_of(Call call, int fd, std::string& out) {
    sockaddr_storage at{};
    socklen_t size = sizeof(at);
    if (call(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) return errno;
    out = address_text(reinterpret_cast<sockaddr const*>(&at), size);
    return 0;
  }
  [[nodiscard]] std::string where() const { return "rank 0 at " + from_.host + ':' + std::to_string(from_.port); }

  /// Rank 0 may not listen yet: it is asked until the time is over.
  bool connect() {
    for (int code = 0;;) {
      for (addrinfo const* one = addresses_.get(); one != nullptr; one = one->ai_next) {
        code = connect_to(*one);
        if (code == 0) return true;
        if (ending()) return false;
      }
      if (clock::now() >= deadline_) {
        fail(failure_kind::timeout,
             where() + " could not be reached within " + std::to_string(limit_.count()) + " ms (" + system_text(code) +
                 "); start rank 0 there, check MASTER_ADDR and MASTER_PORT, or give a longer limit");
        return false;
      }
      std::this_thread::sleep_for(std::min(left_until(deadline_), std::chrono::milliseconds(50)));
    }
  }
  int connect_to(addrinfo const& at) {
    descriptor made(::socket(at.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!made) return errno;
    prepare_connection(made.get());
    if (::connect(made.get(), at.ai_addr, at.ai_addrlen) != 0) {
      if (errno != EINPROGRESS) return errno;
      pollfd one{made.get(), POLLOUT, 0};
      auto const late = std::min(deadline_, clock::now() + std::chrono::seconds(5));
      for (;;) {
        auto const most = std::max<std::chrono::milliseconds::rep>(left_until(late).count(), 0);
        int const found = ::poll(&one, 1, static_cast<int>(most));
        if (found > 0) break;
        if (found == 0) return ETIMEDOUT;
        if (errno != EINTR) return errno;
      }
      int code = 0;
      socklen_t size = sizeof(code);
      ::getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &code, &size);
      if (code != 0) return code;
    }
    // Of a port from which the system takes its own, a socket can be connected with itself.
    std::string mine, theirs;
    if (int const none = address_of(&::getsockname, made.get(), mine); none != 0) return none;
    if (int const none = address_of(&::getpeername, made.get(), theirs); none != 0) return none;
    if (mine == theirs) return ECONNREFUSED;
    hub_.socket = std::move(made);
    return 0;
  }

  void read() {
    if (!hub_.known) {
      std::size_t const seen = std::min(hub_.in.size(), wire_magic.size());
      if (std::string_view(hub_.in).substr(0, seen) != wire_magic.substr(0, seen)) {
        fail(failure_kind::other, "who listens at " + from_.host + ':' + std::to_string(from_.port) +
                                      " is no heddle process of this version; give a port that nobody else uses in "
                                      "MASTER_PORT or HEDDLE_PORT");
        hub_.left = hub_.gone = true;
        return;
      }
      if (hub_.in.size() < wire_magic.size()) return;
      hub_.in.erase(0, wire_magic.size());
      hub_.known = true;
    }
    frame got;
    for (;;) {
      frame_state const state = take_frame(hub_.in, got);
      if (state == frame_state::partial) return;
      if (state == frame_state::malformed || (got.type == frame_type::mail && got.from >= from_.place.size)) {
        fail(failure_kind::rank, where() +
                                     " sent what no heddle process sends; run one program of one version on all "
                                     "ranks");
        hub_.left = hub_.gone = true;
        return;
      }
      if (got.type == frame_type::welcome) {
        ready_ = true;
        host_.ready();
      } else if (got.type == frame_type::failure) {
        (void)host_.failure(failure_of(got));
      } else if (got.type == frame_type::leave) {
        hub_.left = true;
      } else {
        host_.arrived(got);
      }
    }
  }

  /// The connection is closed.
  void lost() {
    if (hub_.left || host_.over()) return;
    fail(failure_kind::rank, 0,
         hub_.known ? where() +
                          " is gone: its connection closed before it returned; see its own "
                          "output, and whether it was killed or its machine was lost"
                    : where() +
                          " closed the connection without a word; check MASTER_ADDR and "
                          "MASTER_PORT, and who listens there");
  }

  /// Rank 0 has all that was sent, and closes first: to close before what it sent is read would take back ours.
  bool may_end() {
    if (ended_ == clock::time_point{}) ended_ = clock::now() + std::chrono::seconds(2);
    if (hub_.out.empty()) ::shutdown(hub_.socket.get(), SHUT_WR);
    return clock::now() >= ended_;
  }

  launch from_;
  addresses addresses_;
  tcp_peer hub_;
  bool ready_ = false;
  clock::time_point ended_{};
};

}  // namespace heddle::comm::detail
