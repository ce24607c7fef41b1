// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/comm/thread_communicator.hpp>

namespace heddle::comm {

/// One run of thread ranks, from start to join. `run_threads` is how to use it.
class thread_run {
 public:
  /// `call` is what the errors of its arguments name. With `movers` the ranks' data is moved by those.
  thread_run(std::size_t ranks, thread_options options, char const* call = "run_threads",
             std::shared_ptr<detail::data_movers> movers = nullptr) {
    if (ranks == 0) throw error(detail::joined_text({call, ": ranks is 0; pass at least 1"}));
    if (options.timeout.count() <= 0 || options.conflict_after.count() <= 0)
      throw error(detail::joined_text({call, ": timeout is ", options.timeout.count(), " ms, conflict_after is ",
                                       options.conflict_after.count(), " ms; both must be positive"}));
    world_ = std::make_shared<detail::thread_world>(ranks, options, std::move(movers));
    std::vector<std::size_t> all(ranks);
    for (std::size_t r = 0; r < ranks; ++r) all[r] = r;
    group_ = std::make_shared<detail::thread_group>(world_, "world", std::move(all));
    world_->add(group_);
  }

  template <class F>
  void operator()(F& function) {
    run_ranks([this, &function](std::size_t rank) {
      thread_communicator world(group_, rank);
      function(world);
    });
  }

  /// `function(rank)` on each rank's thread.
  template <class F>
  void run_ranks(F const& function) {
    std::size_t const ranks = group_->size();
    std::vector<std::thread> threads;
    threads.reserve(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      try {
        threads.emplace_back([this, r, &function] { run_rank(r, function); });
      } catch (std::exception const& e) {
        fail(r, detail::joined_text({"its thread could not be started: ", e.what()}), std::current_exception());
        for (; r < ranks; ++r) world_->leave();
      }
    }
    world_->watch();
    for (std::thread& one : threads) one.join();
    if (world_->failed()) {
      // Where nobody catches, the program is aborted, and what ranks printed into a pipe or a file would be lost.
      std::fflush(stdout);
      world_->throw_failure_with_cause();
    }
  }

  /// Of all ranks.
  [[nodiscard]] std::shared_ptr<detail::thread_group> const& group() const { return group_; }

 private:
  template <class F>
  void run_rank(std::size_t rank, F const& function) {
    detail::thread_engine& engine = *world_->engines[rank];
    engine.main_thread.store(std::this_thread::get_id(), std::memory_order_release);
    try {
      function(rank);
      engine.stop();
      if (engine.abandoned()) world_->fail({detail::failure_kind::rank, rank, engine.abandoned_text(), nullptr});
      world_->finish(rank);
    } catch (std::exception const& e) {
      fail(rank, e.what(), std::current_exception());
    } catch (...) {
      fail(rank, "an exception that is no std::exception", std::current_exception());
    }
    engine.stop();
    world_->leave();
  }

  /// Of a run that has failed already this changes nothing: the first failure is the one that is told.
  [[gnu::cold]] void fail(std::size_t rank, std::string const& text, std::exception_ptr cause) {
    world_->fail(
        {detail::failure_kind::rank, rank, detail::joined_text({"rank ", rank, " failed: ", text}), std::move(cause)});
  }

  std::shared_ptr<detail::thread_world> world_;
  std::shared_ptr<detail::thread_group> group_;
};

/// Runs `function(communicator)` on `ranks` threads, each with its `thread_communicator` of all of them (named
/// "world"), and returns when all have returned. The calling thread watches.
///
/// The first thing that goes wrong ends the run (standard output is flushed before anything is thrown here): an
/// exception that leaves `function` on some rank, a disagreement between ranks, a wait that cannot end, or one longer
/// than `options.timeout`. Ranks that are in a call, or make one later, throw it there; and it is thrown here, even
/// where every rank caught it: `rank_failed` (with the rank, its text, and the exception itself as `cause()`),
/// `call_mismatch`, `rank_left`, `operation_timeout` or `order_conflict`.
template <class F>
void run_threads(std::size_t ranks, F&& function, thread_options options = {}) {
  thread_run run(ranks, options);
  run(function);
}

}  // namespace heddle::comm
