// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <heddle/comm/detail/run_failure.hpp>
#include <heddle/comm/launch.hpp>

namespace heddle::comm {

/// How ranks find each other and hear of each other's failures, before and beside the library that moves their data:
/// few small messages, and what ended the run. One object for each rank; its members may be called by all threads.
/// Models: `thread_exchange` (ranks of one process), `tcp_exchange` (processes).
class rank_exchange {
 public:
  using bytes = std::vector<std::byte>;

  rank_exchange(rank_exchange const&) = delete;
  rank_exchange& operator=(rank_exchange const&) = delete;
  virtual ~rank_exchange() = default;

  [[nodiscard]] rank_place const& place() const { return place_; }
  [[nodiscard]] std::chrono::milliseconds limit() const { return limit_; }

  /// Gives `content` to rank `to` under a name. It waits for nobody.
  void mail(std::size_t to, std::string const& name, std::span<std::byte const> content) {
    require(to, "mail");
    bytes copy(content.begin(), content.end());
    to == place_.rank ? deliver(to, name, std::move(copy)) : post(to, name, std::move(copy));
  }

  /// What rank `from` mailed under that name, if it is here: the first that was not taken yet.
  [[nodiscard]] std::optional<bytes> poll(std::size_t from, std::string const& name) {
    std::lock_guard const lock(mutex_);
    return found(from, name);
  }

  /// The same, waiting for it.
  ///
  /// **Errors.** What ended the run. `operation_timeout` after `limit()`, which ends it.
  [[nodiscard]] bytes take(std::size_t from, std::string const& name) {
    require(from, "take");
    std::unique_lock lock(mutex_);
    std::optional<bytes> one;
    bool const in_time = changed_.wait_for(lock, limit_, [&] { return failed() || (one = found(from, name)); });
    if (one) return std::move(*one);
    lock.unlock();
    if (!in_time)
      fail({detail::failure_kind::timeout, place_.rank,
            "rank " + std::to_string(place_.rank) + " waited " + std::to_string(limit_.count()) + " ms for '" + name +
                "' of rank " + std::to_string(from) +
                ", which has not come so far; make the same calls on both, or give a longer limit",
            nullptr});
    throw_failure();
  }

  /// Content of rank 0, on all. Every rank calls it, with one name.
  void broadcast(std::string const& name, std::span<std::byte> content) {
    if (place_.rank != 0) {
      bytes const got = take(0, name);
      if (got.size() != content.size())
        throw communication_error("rank_exchange: '" + name + "' of rank 0 has " + std::to_string(got.size()) +
                                  " bytes, and rank " + std::to_string(place_.rank) + " expects " +
                                  std::to_string(content.size()) + "; run one program on all ranks");
      for (std::size_t i = 0; i < got.size(); ++i) content[i] = got[i];
      return;
    }
    for (std::size_t r = 1; r < place_.size; ++r) mail(r, name, content);
  }

  /// Ends the run for all ranks, unless it has ended: the first failure is the one that all tell.
  void fail(detail::run_failure const& failure) {
    if (note(failure)) tell(failure);
  }
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  [[noreturn]] void throw_failure(bool with_cause = false) const { detail::throw_as_error(failure_, with_cause); }
  void require_running() const {
    if (failed()) throw_failure();
  }

  /// This rank has returned. Its messages reach whom they are for all the same.
  virtual void leave() = 0;

 protected:
  rank_exchange(rank_place place, std::chrono::milliseconds limit) : place_(place), limit_(limit) {
    if (limit.count() <= 0)
      throw error("rank_exchange: the limit is " + std::to_string(limit.count()) + " ms; it must be positive");
  }

  /// Sends to another rank.
  virtual void post(std::size_t to, std::string const& name, bytes content) = 0;
  /// Tells all others what ended the run.
  virtual void tell(detail::run_failure const& failure) = 0;

  void deliver(std::size_t from, std::string const& name, bytes content) {
    {
      std::lock_guard const lock(mutex_);
      mail_[{from, name}].push_back(std::move(content));
    }
    changed_.notify_all();
  }
  /// Of this rank or another; whether it is the first.
  bool note(detail::run_failure failure) {
    {
      std::lock_guard const lock(mutex_);
      if (failed()) return false;
      failure_ = std::move(failure);
      failed_.store(true, std::memory_order_release);
    }
    changed_.notify_all();
    return true;
  }

  /// For models: what waits for `changed_` holds it.
  std::mutex mutex_;
  std::condition_variable changed_;

 private:
  [[nodiscard]] std::optional<bytes> found(std::size_t from, std::string const& name) {
    auto const at = mail_.find({from, name});
    if (at == mail_.end()) return std::nullopt;
    bytes one = std::move(at->second.front());
    at->second.erase(at->second.begin());
    if (at->second.empty()) mail_.erase(at);
    return one;
  }
  void require(std::size_t rank, char const* call) const {
    if (rank >= place_.size)
      throw error(std::string("rank_exchange: ") + call + " names rank " + std::to_string(rank) + ", but there are " +
                  std::to_string(place_.size));
  }

  rank_place place_;
  std::chrono::milliseconds limit_;
  std::map<std::pair<std::size_t, std::string>, std::vector<bytes>> mail_;
  detail::run_failure failure_;  // written once, before failed_ is set
  std::atomic<bool> failed_{false};
};

}  // namespace heddle::comm
