// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/comm/detail/data_mover.hpp>
#include <heddle/comm/detail/run_failure.hpp>
#include <heddle/comm/errors.hpp>

namespace heddle::comm {

/// How a run of thread ranks is watched.
struct thread_options {
  /// A call that has not ended after this long ends the run with `operation_timeout`.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  /// Ranks that have waited for each other in a circle for this long end the run with `order_conflict`. Each
  /// communicator of a rank is taken to be used next by the thread of that rank that used it last.
  std::chrono::milliseconds conflict_after = std::chrono::seconds(1);
};

}  // namespace heddle::comm

namespace heddle::comm::detail {

class thread_group;
class thread_engine;

/// What the ranks of one run share: its failure, its groups, and who has returned.
/// Lock order: the world's mutex, then one group's, then one engine's. `fail` and `finish` take them all in turn.
class thread_world {
 public:
  thread_world(std::size_t ranks, thread_options options, std::shared_ptr<data_movers> with = nullptr);

  thread_options const options;
  std::shared_ptr<data_movers> const movers;            // null where threads move the data themselves
  std::vector<std::unique_ptr<thread_engine>> engines;  // one per rank

  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
  [[nodiscard]] bool any_finished() const noexcept { return finished_.load(std::memory_order_acquire) != 0; }

  /// Ends the run, unless it has ended already: everyone who waits is woken, everyone who calls from now on throws.
  [[gnu::cold]] void fail(run_failure failure);

  [[noreturn, gnu::cold]] void throw_failure() const { throw_as_error(failure_); }
  /// The same with the original exception, for the thread that has joined the ranks.
  [[noreturn, gnu::cold]] void throw_failure_with_cause() const { throw_as_error(failure_, true); }

  [[noreturn, gnu::cold]] void fail_and_throw(run_failure failure) {
    fail(std::move(failure));
    throw_failure();
  }

  /// Rank `rank` has returned from its function. Whoever waits for it would wait for ever.
  void finish(std::size_t rank);

  void add(std::shared_ptr<thread_group> const& group);
  [[nodiscard]] std::vector<std::shared_ptr<thread_group>> groups();

  /// Runs on the thread that started the ranks, until all of them have left: finds stalls and circles.
  void watch();
  void leave();

 private:
  void look();
  [[nodiscard, gnu::cold]] std::string circle(std::chrono::steady_clock::time_point now);

  std::mutex mutex_;
  std::condition_variable left_;
  std::size_t present_;
  run_failure failure_;  // written once, before failed_ is set
  std::atomic<bool> failed_{false};
  std::atomic<std::size_t> finished_{0};
  std::vector<std::weak_ptr<thread_group>> groups_;
};

}  // namespace heddle::comm::detail
