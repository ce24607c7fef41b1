// SPDX-License-Identifier: Apache-2.0
#pragma once
// The run as a whole: its failure, its end, and the watcher that finds stalls and circles.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <heddle/comm/detail/thread_engine.hpp>
#include <heddle/comm/detail/thread_group.hpp>
#include <heddle/comm/detail/thread_group_calls.hpp>
#include <heddle/comm/detail/thread_group_text.hpp>
#include <heddle/comm/detail/thread_world.hpp>

namespace heddle::comm::detail {

inline thread_world::thread_world(std::size_t ranks, thread_options how, std::shared_ptr<data_movers> with)
    : options(how), movers(std::move(with)), present_(ranks) {
  for (std::size_t r = 0; r < ranks; ++r) engines.push_back(std::make_unique<thread_engine>(*this, r));
}

inline void thread_world::add(std::shared_ptr<thread_group> const& group) {
  std::lock_guard lock(mutex_);
  groups_.erase(std::remove_if(groups_.begin(), groups_.end(), [](auto const& one) { return one.expired(); }),
                groups_.end());
  groups_.push_back(group);
}

inline std::vector<std::shared_ptr<thread_group>> thread_world::groups() {
  std::vector<std::shared_ptr<thread_group>> list;
  std::lock_guard lock(mutex_);
  for (auto const& one : groups_)
    if (std::shared_ptr<thread_group> group = one.lock()) list.push_back(std::move(group));
  return list;
}

inline void thread_world::fail(run_failure failure) {
  {
    std::lock_guard lock(mutex_);
    if (failed()) return;
    failure_ = std::move(failure);
    failed_.store(true, std::memory_order_release);
  }
  for (auto const& group : groups()) group->break_waits();
}

inline void thread_world::finish(std::size_t rank) {
  engines[rank]->finished.store(true, std::memory_order_release);
  finished_.fetch_add(1, std::memory_order_acq_rel);
  for (auto const& group : groups()) {
    std::string text = group->waits_for_left(rank);
    if (!text.empty()) return fail({failure_kind::left, rank, std::move(text), nullptr});
  }
}

inline void thread_world::leave() {
  std::lock_guard lock(mutex_);
  --present_;
  if (present_ == 0) left_.notify_all();
}

inline void thread_world::watch() {
  using std::chrono::milliseconds;
  milliseconds const period =
      std::clamp(std::min(options.timeout / 8, options.conflict_after / 4), milliseconds(5), milliseconds(250));
  std::unique_lock lock(mutex_);
  while (!left_.wait_for(lock, period, [this] { return present_ == 0; })) {
    lock.unlock();
    if (!failed()) look();
    lock.lock();
  }
}

inline void thread_world::look() {
  auto const now = std::chrono::steady_clock::now();
  bool aged = false;
  // One at a time, since a list of them would be allocated. A group that is passed over, because another was dropped
  // meanwhile, is seen the next time.
  for (std::size_t k = 0;; ++k) {
    std::shared_ptr<thread_group> group;
    {
      std::lock_guard lock(mutex_);
      if (k >= groups_.size()) break;
      group = groups_[k].lock();
    }
    if (group == nullptr) continue;
    std::string text = group->stalled(now, options.timeout, options.conflict_after, aged);
    if (!text.empty()) return fail({failure_kind::timeout, 0, std::move(text), nullptr});
  }
  if (!aged) return;
  std::string text = circle(now);
  if (!text.empty()) fail({failure_kind::conflict, 0, std::move(text), nullptr});
}

/// A blocked thread waits for all of the threads it names, so any circle of blocked threads is a deadlock. Only waits
/// older than `conflict_after` count; the thread that waits for its own rank's helper is as old as what the helper
/// does.
inline std::string thread_world::circle(std::chrono::steady_clock::time_point now) {
  std::vector<blocked_wait> waits;
  for (auto const& group : groups()) group->collect_waits(now, options.conflict_after, waits);
  for (auto const& engine : engines) {
    std::thread::id const blocked = engine->blocked_thread.load(std::memory_order_acquire);
    if (blocked == std::thread::id{}) continue;
    waits.push_back({engine->rank(),
                     blocked,
                     joined_text({"rank ", engine->rank(), " waits for its asynchronous operations"}),
                     {{engine->rank(), engine->helper_thread.load(std::memory_order_acquire)}}});
  }
  // Depth first, with the path as an explicit stack of (wait, next awaited thread).
  enum class mark { fresh, on_path, closed };
  std::vector<mark> marks(waits.size(), mark::fresh);
  for (std::size_t start = 0; start < waits.size(); ++start) {
    if (marks[start] != mark::fresh) continue;
    std::vector<std::pair<std::size_t, std::size_t>> path{{start, 0}};
    marks[start] = mark::on_path;
    while (!path.empty()) {
      auto& [at, next] = path.back();
      if (next == waits[at].awaited.size()) {
        marks[at] = mark::closed;
        path.pop_back();
        continue;
      }
      std::thread::id const thread = waits[at].awaited[next++].thread;
      std::size_t to = 0;
      while (to < waits.size() && waits[to].thread != thread) ++to;
      if (to == waits.size() || marks[to] == mark::closed) continue;
      if (marks[to] == mark::fresh) {
        marks[to] = mark::on_path;
        path.emplace_back(to, 0);
        continue;
      }
      std::string text = "ranks wait for each other in a circle: ";
      auto from = std::find_if(path.begin(), path.end(), [to](auto const& step) { return step.first == to; });
      for (bool first = true; from != path.end(); ++from, first = false)
        text += joined_text({first ? "" : "; ", waits[from->first].text});
      return text +
             "; call the operations of different communicators in one order on all ranks (pipeline, tensor, "
             "then data), and post one side of an exchange with send_async or receive_async";
    }
  }
  return {};
}

}  // namespace heddle::comm::detail
