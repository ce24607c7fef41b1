// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <heddle/comm/detail/thread_group.hpp>

namespace heddle::comm::detail {

enum class record_state : std::uint8_t { pending, done, failed };

/// An asynchronous operation between its call and its end. Records are pooled: after the first few, none is allocated.
struct async_record {
  bool transfers = false;  // `move` is meant, which needs no thread; otherwise `call`, which the helper runs
  transfer move{};
  collective_call call{};
  thread_group* group = nullptr;
  std::size_t member = 0;
  std::atomic<bool> withdrawn{false};
  std::atomic<record_state> state{record_state::pending};
  async_record* next = nullptr;
};

/// What belongs to one rank as a whole: the helper thread that runs its asynchronous collectives in the order in which
/// they were called (started by the first of them), and whether the rank can still communicate.
class thread_engine {
 public:
  thread_engine(thread_world& world, std::size_t rank) : world_(world), rank_(rank) {}
  thread_engine(thread_engine const&) = delete;
  thread_engine& operator=(thread_engine const&) = delete;
  ~thread_engine() { stop(); }

  [[nodiscard]] std::size_t rank() const { return rank_; }
  std::atomic<std::thread::id> main_thread{};
  std::atomic<std::thread::id> helper_thread{};
  std::atomic<std::thread::id> blocked_thread{};  // who waits for the helper
  std::atomic<bool> finished{false};

  [[nodiscard]] async_record& take() {
    std::lock_guard lock(mutex_);
    if (free_ == nullptr) {
      pool_.push_back(std::make_unique<async_record>());
      return *pool_.back();
    }
    async_record& record = *free_;
    free_ = record.next;
    return record;
  }
  void give(async_record& record) {
    std::lock_guard lock(mutex_);
    record.next = free_;
    free_ = &record;
  }

  /// Queues `record.call`.
  void submit(async_record& record) {
    record.next = nullptr;
    record.withdrawn.store(false, std::memory_order_relaxed);
    record.state.store(record_state::pending, std::memory_order_relaxed);
    {
      std::lock_guard lock(mutex_);
      if (!helper_.joinable()) {
        helper_ = std::thread([this] { run(); });
        helper_thread.store(helper_.get_id(), std::memory_order_release);
      }
      record.group->async_begins(record.member);
      (last_ != nullptr ? last_->next : first_) = &record;
      last_ = &record;
    }
    work_.notify_one();
  }

  /// Returns when the record is no longer pending; `state` then says how it ended.
  void wait(async_record const& record) {
    block_until([&record] { return record.state.load(std::memory_order_acquire) != record_state::pending; });
  }

  /// Returns when no asynchronous call of member `m` of `group` is queued or running, so that the next call on that
  /// group comes after them. A no-op for the helper itself.
  void drain(thread_group const& group, std::size_t m) {
    if (!group.has_async(m) || std::this_thread::get_id() == helper_thread.load(std::memory_order_acquire)) return;
    block_until([&group, m] { return !group.has_async(m); });
  }

  /// Takes the call back without communicating: it waits for nobody but a copy that is already under way, since a peer
  /// may be reading the buffer. True where the operation had ended before.
  bool abandon(async_record& record) {
    if (record.state.load(std::memory_order_acquire) != record_state::pending) return true;
    if (unqueue(record)) return false;
    record.withdrawn.store(true, std::memory_order_release);
    record.group->withdraw(record.member, record.withdrawn);
    wait(record);
    return record.state.load(std::memory_order_acquire) == record_state::done;
  }

  /// The rank left an unfinished operation behind: it cannot communicate any more, since its peers would see its calls
  /// out of order. The run fails when the rank tries, or returns; an exception that leaves its function comes first.
  [[gnu::cold]] void note_abandoned(std::string const& text) {
    std::lock_guard lock(mutex_);
    if (abandoned_.load(std::memory_order_relaxed)) return;
    abandoned_text_ = text;
    abandoned_.store(true, std::memory_order_release);
  }
  [[nodiscard]] bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  [[nodiscard]] std::string const& abandoned_text() const { return abandoned_text_; }

  /// Ends the helper after what is queued. Also safe to call twice.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    work_.notify_all();
    if (helper_.joinable()) helper_.join();
  }

 private:
  /// False where the helper has begun with it.
  bool unqueue(async_record& record) {
    std::lock_guard lock(mutex_);
    async_record* before = nullptr;
    for (async_record* at = first_; at != nullptr; before = at, at = at->next) {
      if (at != &record) continue;
      (before != nullptr ? before->next : first_) = at->next;
      if (last_ == at) last_ = before;
      record.group->async_ends(record.member);
      return true;
    }
    return false;
  }

  template <class Ready>
  void block_until(Ready ready) {
    if (ready()) return;
    blocked_thread.store(std::this_thread::get_id(), std::memory_order_release);
    for (;;) {
      std::uint32_t const before = ended_.load(std::memory_order_acquire);
      if (ready()) break;
      ended_.wait(before, std::memory_order_acquire);
    }
    blocked_thread.store(std::thread::id{}, std::memory_order_release);
  }

  void run() {
    for (;;) {
      async_record* record = nullptr;
      {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [this] { return first_ != nullptr || stopping_; });
        if (first_ == nullptr) return;
        record = first_;
        first_ = record->next;
        if (first_ == nullptr) last_ = nullptr;
      }
      // From here the record may end at any time, after which its owner reuses it.
      record_state const state = execute(*record);
      record->group->async_ends(record->member);
      record->state.store(state, std::memory_order_release);
      ended_.fetch_add(1, std::memory_order_seq_cst);
      ended_.notify_all();
    }
  }

  record_state execute(async_record& record) {
    try {
      record.group->collective(record.member, record.call, &record.withdrawn);
      return record_state::done;
    } catch (call_withdrawn const&) {
    } catch (std::exception const& e) {  // of a run that has failed, this changes nothing
      world_.fail({failure_kind::rank, rank_, joined_text({"rank ", rank_, " failed: ", e.what()}), nullptr});
    }
    return record_state::failed;
  }

  thread_world& world_;
  std::size_t rank_;
  std::mutex mutex_;
  std::condition_variable work_;
  async_record* first_ = nullptr;
  async_record* last_ = nullptr;
  bool stopping_ = false;
  std::thread helper_;
  std::atomic<std::uint32_t> ended_{0};
  std::vector<std::unique_ptr<async_record>> pool_;
  async_record* free_ = nullptr;
  std::atomic<bool> abandoned_{false};
  std::string abandoned_text_;
};

}  // namespace heddle::comm::detail
