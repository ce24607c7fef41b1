// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include <heddle/comm/detail/tcp_hub.hpp>
#include <heddle/comm/detail/tcp_spoke.hpp>
#include <heddle/comm/rank_exchange.hpp>
#include <heddle/comm/tcp_listener.hpp>

namespace heddle::comm {

/// The exchange of ranks that are processes, over TCP: each is connected with rank 0, which passes on what the others
/// mail. One thread of each process reads and writes. A process that ends without a word, and a machine that is lost,
/// end the run; rank 0 stays until the others have returned.
class tcp_exchange : public rank_exchange, private detail::tcp_host {
 public:
  /// Returns when all ranks are here. `limit` is how long a rank waits for that, and for a message.
  ///
  /// **Errors.** communication_error, or one of its kinds: no such host; a port that is taken; nobody there, or
  /// somebody who speaks something else; ranks that did not come (`operation_timeout`); two processes of one rank;
  /// unequal sizes of the run. What one rank finds, all tell.
  tcp_exchange(launch const& from, std::chrono::milliseconds limit) : tcp_exchange(from, std::nullopt, limit) {}
  /// The same, on rank 0, where it listens already.
  tcp_exchange(launch const& from, std::optional<tcp_listener> listener, std::chrono::milliseconds limit)
      : rank_exchange(from.place, limit) {
    if (from.place.size == 1) return;
    detail::tcp_host& told = *this;
    if (from.place.rank == 0)
      connected_ = std::make_unique<detail::tcp_hub>(
          told, from.place, listener ? std::move(*listener) : tcp_listener(from.host, from.port), limit);
    else
      connected_ = std::make_unique<detail::tcp_spoke>(told, from, limit);
    thread_ = std::thread([this] { connected_->run(); });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_ || failed(); });  // the thread keeps the limit
    if (!failed()) return;
    lock.unlock();
    end();
    throw_failure();
  }
  ~tcp_exchange() override {
    if (!thread_.joinable()) return;
    if (!failed()) leave();
    end();
  }

  void leave() override {
    if (thread_.joinable() && !std::exchange(left_, true))
      connected_->send({.type = detail::frame_type::leave, .from = own()});
  }

 private:
  [[nodiscard]] std::uint32_t own() const { return static_cast<std::uint32_t>(place().rank); }

  void post(std::size_t to, std::string const& name, bytes content) override {
    if (name.size() > detail::most_name_bytes || content.size() > detail::most_content_bytes)
      throw error("tcp_exchange: a message of " + std::to_string(content.size()) + " bytes under a name of " +
                  std::to_string(name.size()) + "; at most 1 MiB under one of 4096 can be mailed");
    connected_->send({.type = detail::frame_type::mail,
                      .from = own(),
                      .to = static_cast<std::uint32_t>(to),
                      .name = name,
                      .content = std::string(reinterpret_cast<char const*>(content.data()), content.size())});
  }
  void tell(detail::run_failure const& failure) override {
    if (thread_.joinable()) connected_->send(detail::frame_of(failure));
  }

  // What the thread of the connections found.
  void ready() override {
    {
      std::lock_guard const lock(mutex_);
      ready_ = true;
    }
    changed_.notify_all();
  }
  void arrived(detail::frame const& one) override {
    auto const* const data = reinterpret_cast<std::byte const*>(one.content.data());
    deliver(one.from, one.name, bytes(data, data + one.content.size()));
  }
  bool failure(detail::run_failure const& one) override { return note(one); }
  [[nodiscard]] bool over() const override { return failed(); }

  void end() {
    connected_->end();
    thread_.join();
  }

  std::unique_ptr<detail::tcp_side> connected_;
  std::thread thread_;
  bool ready_ = false, left_ = false;
};

}  // namespace heddle::comm
