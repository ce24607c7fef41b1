// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <heddle/comm/detail/tcp_side.hpp>
#include <heddle/comm/launch.hpp>
#include <heddle/comm/tcp_listener.hpp>

namespace heddle::comm::detail {

/// Rank 0's side: all others are connected with it.
class tcp_hub : public tcp_side {
 public:
  tcp_hub(tcp_host& host, rank_place place, tcp_listener listener, std::chrono::milliseconds limit)
      : tcp_side(host, limit), size_(place.size), listener_(std::move(listener)), of_rank_(place.size) {}

  void run() override {
    for (;;) {
      bool const last = ending();  // asked first: what was sent before it is among the given
      for (frame const& one : given()) pass_on(one, nullptr);
      for (auto const& one : peers_) one->give_out();
      if (last && may_end()) return;
      std::vector<tcp_peer*> all;
      for (auto const& one : peers_) all.push_back(one.get());
      bool const listens = clock::now() >= listens_at_;
      auto const most = ready_ ? std::chrono::milliseconds(1000) : left_until(deadline_);
      wait(all, listens ? listener_.get() : -1, listens ? most : std::min(most, no_room_pause));
      accept();
      for (auto const& one : peers_) read(*one);
      for (auto const& one : peers_) drop_late(*one);
      drop_gone();
      if (!ready_ && !host_.over()) look_at_the_clock();
    }
  }

 private:
  void fail(failure_kind kind, std::size_t rank, std::string const& text) {
    run_failure const one{kind, rank, text, nullptr};
    if (host_.failure(one)) tell(one, nullptr);
  }
  void tell(run_failure const& failure, tcp_peer const* but) {
    for (auto const& one : peers_)
      if (one.get() != but && one->known && !one->refused) one->out += bytes_of(frame_of(failure));
  }

  void accept() {
    for (;;) {
      sockaddr_storage from{};
      socklen_t size = sizeof(from);
      descriptor made(::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_CLOEXEC));
      if (!made) {
        // Without a free descriptor the listener stays readable: it is left alone for a while, and not asked in
        // circles.
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) listens_at_ = clock::now() + no_room_pause;
        return;
      }
      prepare_connection(made.get());
      auto one = std::make_unique<tcp_peer>();
      one->socket = std::move(made);
      one->address = address_text(reinterpret_cast<sockaddr const*>(&from), size);
      one->out = wire_magic;
      one->until = clock::now() + limit_;
      peers_.push_back(std::move(one));
    }
  }

  /// What has come from a peer, and is whole.
  void read(tcp_peer& one) {
    if (one.refused) return one.in.clear();
    if (!one.known && !greet(one)) return;
    frame got;
    for (;;) {
      frame_state const state = take_frame(one.in, got);
      if (state == frame_state::partial) return;
      if (state == frame_state::malformed || got.type == frame_type::welcome ||
          (got.type != frame_type::failure && got.from != one.rank) ||
          (got.type == frame_type::mail && got.to >= size_)) {
        fail(failure_kind::rank, one.rank,
             who(one) + " sent rank 0 what no heddle process sends; run one program of one version on all ranks");
        one.gone = true;
        return;
      }
      pass_on(got, &one);
    }
  }

  /// A frame of this process, or of another, to whom it is for.
  void pass_on(frame const& one, tcp_peer* from) {
    if (one.type == frame_type::failure) {
      if (from == nullptr || host_.failure(failure_of(one))) tell(failure_of(one), from);
    } else if (one.type == frame_type::leave) {
      if (from != nullptr) from->left = true;
      for (auto const& peer : peers_)
        if (from == nullptr && peer->known && !peer->refused) peer->out += bytes_of(one);
    } else if (one.to == 0) {
      host_.arrived(one);
    } else if (tcp_peer* const to = of_rank_[one.to]; to != nullptr) {
      to->out += bytes_of(one);
    }
  }

  /// Whether the peer said who it is, and may be it.
  bool greet(tcp_peer& one) {
    std::size_t const seen = std::min(one.in.size(), wire_magic.size());
    if (std::string_view(one.in).substr(0, seen) != wire_magic.substr(0, seen)) {
      ++strangers_;
      stranger_ = one.address;
      one.gone = true;
      return false;
    }
    if (one.in.size() < hello_bytes) return false;
    std::uint64_t const rank = number_at(one.in, 8, 8), size = number_at(one.in, 16, 8);
    one.in.erase(0, hello_bytes);
    one.known = true;
    one.rank = static_cast<std::size_t>(rank);
    if (size != size_) {
      refuse(one, "the process at " + one.address + " says that the run has " + std::to_string(size) +
                      " ranks, and rank 0 that it has " + std::to_string(size_) + "; give all one size (WORLD_SIZE)");
    } else if (rank == 0 || rank >= size_ || of_rank_[one.rank] != nullptr) {
      std::string const other = rank == 0       ? "the one that listens"
                                : rank >= size_ ? ""
                                                : "that at " + of_rank_[one.rank]->address;
      refuse(one, rank >= size_ ? "the process at " + one.address + " says that it is rank " + std::to_string(rank) +
                                      " of " + std::to_string(size_) + "; ranks begin at 0"
                                : "two processes are rank " + std::to_string(rank) + ": the one at " + one.address +
                                      " and " + other + "; give each its own RANK, and each run its own MASTER_PORT");
    } else {
      of_rank_[one.rank] = &one;
      if (++here_ == size_ - 1) begin();
      return true;
    }
    return false;
  }
  /// While ranks are awaited this ends the run; a later one does not belong to it.
  void refuse(tcp_peer& one, std::string const& text) {
    if (ready_)
      one.out += bytes_of(frame_of({failure_kind::other, 0, text, nullptr}));
    else
      fail(failure_kind::other, 0, text);
    one.left = one.refused = true;
    one.in.clear();
    one.until = clock::now() + std::chrono::milliseconds(2000);
  }
  /// Who says nothing, and who was refused, stays no longer than it takes. Of the latter, what it still sends is read
  /// until it closes: to close before would take back the reason.
  static void drop_late(tcp_peer& one) {
    if (one.refused && one.out.empty()) ::shutdown(one.socket.get(), SHUT_WR);
    if ((one.refused || !one.known) && clock::now() >= one.until) one.gone = true;
  }
  void begin() {
    ready_ = true;
    for (tcp_peer* const one : of_rank_)
      if (one != nullptr) one->out += bytes_of({.type = frame_type::welcome});
    host_.ready();
  }

  void look_at_the_clock() {
    if (clock::now() < deadline_) return;
    std::string missing;
    std::size_t count = 0;
    for (std::size_t r = 1; r < size_; ++r)
      if (of_rank_[r] == nullptr && ++count <= 16) missing += (missing.empty() ? "" : ", ") + std::to_string(r);
    if (count > 16) missing += ", … (" + std::to_string(count) + " in all)";
    std::string text = "rank 0 waited " + std::to_string(limit_.count()) + " ms for rank" + (count == 1 ? " " : "s ") +
                       missing + " of " + std::to_string(size_) + " to connect at port " +
                       std::to_string(listener_.port());
    if (strangers_ != 0)
      text += "; " + std::to_string(strangers_) + " connection" + (strangers_ == 1 ? "" : "s") +
              " spoke something else, the last from " + stranger_;
    fail(
        failure_kind::timeout, 0,
        text + "; start every rank with one MASTER_ADDR and MASTER_PORT, let the port through, or give a longer limit");
  }

  void drop_gone() {
    for (auto const& one : peers_) {
      if (!one->gone || !one->known || of_rank_.at(one->rank < size_ ? one->rank : 0) != one.get()) continue;
      of_rank_[one->rank] = nullptr;
      if (!one->left)
        fail(failure_kind::rank, one->rank,
             who(*one) +
                 " is gone: its connection closed before it returned; see its own output, and whether it was "
                 "killed or its machine was lost");
    }
    std::erase_if(peers_, [](auto const& one) { return one->gone; });
  }

  /// Nobody needs this process: the others have closed their sides, having left or heard of the failure; or it has
  /// waited long enough. To close before they do would take back what they have not read.
  bool may_end() {
    if (ended_ == clock::time_point{})
      ended_ = clock::now() + (host_.over() ? std::min(limit_, std::chrono::milliseconds(2000)) : limit_);
    if (clock::now() >= ended_) return true;
    return std::none_of(peers_.begin(), peers_.end(), [](auto const& one) { return one->known; });
  }

  static constexpr std::chrono::milliseconds no_room_pause{100};

  static std::string who(tcp_peer const& one) { return "rank " + std::to_string(one.rank) + " (" + one.address + ")"; }

  std::size_t size_, here_ = 0, strangers_ = 0;
  std::string stranger_;
  tcp_listener listener_;
  std::vector<std::unique_ptr<tcp_peer>> peers_;
  std::vector<tcp_peer*> of_rank_;
  bool ready_ = false;
  clock::time_point ended_{}, listens_at_{};
};

}  // namespace heddle::comm::detail
