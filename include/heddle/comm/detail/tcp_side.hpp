// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <heddle/comm/detail/run_failure.hpp>
#include <heddle/comm/detail/socket.hpp>
#include <heddle/comm/detail/wire.hpp>

namespace heddle::comm::detail {

/// Whom the connections of a process tell what they find. Called on their thread.
class tcp_host {
 public:
  virtual void ready() = 0;
  virtual void arrived(frame const& one) = 0;
  /// Whether it is the run's first.
  virtual bool failure(run_failure const& one) = 0;
  [[nodiscard]] virtual bool over() const = 0;

 protected:
  ~tcp_host() = default;
};

[[nodiscard]] inline frame frame_of(run_failure const& failure) {
  return {.type = frame_type::failure,
          .from = static_cast<std::uint32_t>(failure.rank),
          .to = static_cast<std::uint32_t>(failure.kind),
          .content = failure.text.substr(0, most_content_bytes)};
}
[[nodiscard]] inline run_failure failure_of(frame const& one) {
  auto const kind = one.to <= static_cast<std::uint32_t>(failure_kind::other) ? static_cast<failure_kind>(one.to)
                                                                              : failure_kind::other;
  return {kind, one.from, one.content, nullptr};
}

/// One connection: what has come and was not read, and what has to go.
struct tcp_peer {
  descriptor socket;
  std::string address, in, out;
  std::size_t rank = 0;
  bool known = false;  // it said its rank, or the magic
  bool left = false, gone = false;
  bool refused = false;                           // told why; what it says is not read
  std::chrono::steady_clock::time_point until{};  // it is dropped: one that is not known, or refused

  void take_in() {
    std::array<char, 4096> room;
    for (;;) {
      ssize_t const got = ::recv(socket.get(), room.data(), room.size(), 0);
      if (got > 0) {
        in.append(room.data(), static_cast<std::size_t>(got));
        if (in.size() > frame_head_bytes + most_name_bytes + most_content_bytes) return;  // enough for one frame
        continue;
      }
      if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) gone = true;
      return;
    }
  }
  void give_out() {
    while (!out.empty() && !gone) {
      ssize_t const gave = ::send(socket.get(), out.data(), out.size(), MSG_NOSIGNAL);
      if (gave > 0) {
        out.erase(0, static_cast<std::size_t>(gave));
        continue;
      }
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) gone = true;
      return;
    }
  }
};

/// The connections of one process, with the thread that serves them. Nothing but `run` waits.
class tcp_side {
 public:
  using clock = std::chrono::steady_clock;

  tcp_side(tcp_host& host, std::chrono::milliseconds limit)
      : host_(host), limit_(limit), deadline_(clock::now() + limit) {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0)
      throw communication_error("tcp_exchange: no pipe (" + system_text(errno) + "); close files, or raise ulimit -n");
    wake_read_ = descriptor(ends[0]);
    wake_write_ = descriptor(ends[1]);
  }
  tcp_side(tcp_side const&) = delete;
  tcp_side& operator=(tcp_side const&) = delete;
  virtual ~tcp_side() = default;

  /// The thread's body: returns after `end`.
  virtual void run() = 0;

  void send(frame one) {
    {
      std::lock_guard const lock(mutex_);
      given_.push_back(std::move(one));
    }
    wake();
  }
  /// What was sent goes out; then `run` returns.
  void end() {
    {
      std::lock_guard const lock(mutex_);
      ending_ = true;
    }
    wake();
  }

 protected:
  [[nodiscard]] std::vector<frame> given() {
    std::lock_guard const lock(mutex_);
    return std::exchange(given_, {});
  }
  [[nodiscard]] bool ending() {
    std::lock_guard const lock(mutex_);
    return ending_;
  }

  /// Waits until something happens, or `most` is over; then reads and writes what there is.
  void wait(std::vector<tcp_peer*> const& peers, int listener, std::chrono::milliseconds most) {
    std::vector<pollfd> all{{wake_read_.get(), POLLIN, 0}, {listener, POLLIN, 0}};
    for (tcp_peer const* one : peers)
      all.push_back({one->socket.get(), static_cast<short>(one->out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    auto const ms = std::clamp<std::chrono::milliseconds::rep>(most.count(), 0, 1000);
    ::poll(all.data(), all.size(), static_cast<int>(ms));
    std::array<char, 64> room;
    while (::read(wake_read_.get(), room.data(), room.size()) > 0) {
    }
    for (std::size_t i = 0; i < peers.size(); ++i)
      if (all[i + 2].revents != 0) peers[i]->take_in();
  }
  [[nodiscard]] std::chrono::milliseconds left_until(clock::time_point when) const {
    return std::chrono::ceil<std::chrono::milliseconds>(when - clock::now());
  }

  tcp_host& host_;
  std::chrono::milliseconds limit_;
  clock::time_point deadline_;

 private:
  void wake() {
    char const one = 0;
    [[maybe_unused]] ssize_t const written = ::write(wake_write_.get(), &one, 1);  // a full pipe wakes, too
  }

  descriptor wake_read_, wake_write_;
  std::mutex mutex_;
  std::vector<frame> given_;
  bool ending_ = false;
};

}  // namespace heddle::comm::detail
