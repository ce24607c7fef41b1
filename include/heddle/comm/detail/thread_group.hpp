// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <heddle/comm/counters.hpp>
#include <heddle/comm/detail/data_mover.hpp>
#include <heddle/comm/detail/thread_call.hpp>
#include <heddle/comm/detail/thread_transfer.hpp>
#include <heddle/comm/detail/thread_world.hpp>

namespace heddle::comm::detail {

/// Thrown to the helper thread whose call was withdrawn by its owner; never seen by a user.
struct call_withdrawn {};

/// One thread that is blocked, as the watcher sees it: what for, and which threads could end it. An unset thread stands
/// for the one that runs the rank's function.
struct blocked_wait {
  struct awaited_thread {
    std::size_t rank;
    std::thread::id thread;
  };
  std::size_t rank = 0;
  std::thread::id thread{};
  std::string text{};
  std::vector<awaited_thread> awaited{};
};

/// A process group of thread ranks. Members publish their calls; nothing is buffered: data goes from the buffer of one
/// rank to that of another.
///
/// A collective is *pending* until the last member has called, then *committed*: from there on every member is inside
/// the call, no wait depends on anyone outside, and failures elsewhere do not disturb it. So a member that leaves early
/// (failure, withdrawal) never leaves while others read its buffers.
class thread_group {
 public:
  thread_group(std::shared_ptr<thread_world> world, std::string name, std::vector<std::size_t> ranks);

  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] std::string const& name() const { return name_; }
  [[nodiscard]] thread_world& world() const { return *world_; }
  [[nodiscard]] std::shared_ptr<thread_world> const& shared_world() const { return world_; }
  [[nodiscard]] std::size_t world_rank(std::size_t m) const { return members_[m].rank; }
  [[nodiscard]] thread_engine& engine(std::size_t m) const { return *world_->engines[world_rank(m)]; }

  /// Runs one collective of member `m`. `withdrawn` belongs to an asynchronous call that its owner may take back.
  void collective(std::size_t m, collective_call const& call, std::atomic<bool> const* withdrawn = nullptr);
  /// Takes back a call that is pending with this token; a committed one stays. Never blocks.
  void withdraw(std::size_t m, std::atomic<bool> const& token);

  void post(transfer& one);
  void wait(transfer& one);
  void withdraw(transfer& one);

  [[nodiscard]] std::shared_ptr<thread_group> subset(std::size_t m, std::vector<std::size_t> const& list,
                                                     std::string const& label);

  void count_call(std::size_t m, operation op, std::size_t calls = 1) {
    members_[m].counters[static_cast<std::size_t>(op)].calls.fetch_add(calls, std::memory_order_relaxed);
  }
  [[nodiscard]] communication_counters counters(std::size_t m) const;

  // Asynchronous calls that are queued or running, per member; while there are any, the helper is who calls next.
  void async_begins(std::size_t m) { members_[m].queued.fetch_add(1, std::memory_order_acq_rel); }
  void async_ends(std::size_t m) { members_[m].queued.fetch_sub(1, std::memory_order_acq_rel); }
  [[nodiscard]] bool has_async(std::size_t m) const { return members_[m].queued.load(std::memory_order_acquire) != 0; }

  // For the world: never called with a group's mutex held.
  [[gnu::cold]] void break_waits();
  [[nodiscard]] std::string waits_for_left(std::size_t rank);
  /// Notes what is pending at `now`. Returns the text of a call pending longer than `limit`, or an empty one; `aged`
  /// becomes true when something has been pending longer than `age`.
  [[nodiscard]] std::string stalled(std::chrono::steady_clock::time_point now, std::chrono::milliseconds limit,
                                    std::chrono::milliseconds age, bool& aged);
  [[gnu::cold]] void collect_waits(std::chrono::steady_clock::time_point now, std::chrono::milliseconds age,
                                   std::vector<blocked_wait>& waits);

 private:
  enum class call_state : std::uint8_t { idle, waiting, committed, completed, withdrawn, broken };
  struct counter_cell {
    std::atomic<std::uint64_t> calls{0};
    std::atomic<std::uint64_t> elements{0};
    std::atomic<std::uint64_t> bytes{0};
  };
  struct alignas(64) member {
    std::size_t rank = 0;
    // written by the member under the mutex while its call is not committed
    collective_call call{};
    std::atomic<bool> const* token = nullptr;
    std::thread::id thread{};
    std::uint64_t number = 0;  // collective calls so far
    bool present = false;
    std::atomic<call_state> state{call_state::idle};
    std::atomic<std::uint32_t> signal{0};  // changes when a transfer of this member changes
    std::atomic<std::size_t> queued{0};
    std::array<counter_cell, operation_count> counters{};
  };
  /// A subset that not all of its members have joined.
  struct pending_subset {
    std::vector<std::size_t> list;
    std::string label;
    std::vector<std::size_t> missing;
    std::shared_ptr<thread_group> group;
  };

  // thread_group_calls.hpp
  call_state await(member& me);
  void internal_barrier();
  void release(call_state state);
  // thread_group_text.hpp
  [[nodiscard, gnu::cold]] std::string who(std::size_t m) const;
  [[nodiscard, gnu::cold]] std::string who_calls(std::size_t m, std::uint64_t number,
                                                 collective_call const& call) const;
  [[nodiscard]] std::string unequal_mismatch() const;
  [[nodiscard, gnu::cold]] std::string missing_text() const;
  [[nodiscard, gnu::cold]] std::string describe_transfer(transfer const& one) const;
  [[nodiscard, gnu::cold]] std::string waits_for_left_text(transfer const& one) const;
  [[nodiscard, gnu::cold]] std::string unlike_calls_text(std::size_t m, collective_call const& call) const;
  [[nodiscard, gnu::cold]] std::string unlike_transfers_text(transfer const& a, transfer const& b) const;
  [[nodiscard, gnu::cold]] std::string unlike_subsets_text(std::size_t m, std::vector<std::size_t> const& list,
                                                           std::string const& label, pending_subset const& other) const;
  // thread_group_data.hpp
  void run_whole();
  void run_on_mover();
  void run_first(std::size_t m, std::uint64_t* tally);
  void run_second(std::size_t m, std::uint64_t* tally);
  void copy_block(std::size_t m, std::size_t source, std::size_t from, std::size_t to, std::size_t count,
                  std::uint64_t* tally, std::size_t part = 0);
  void copy_rows(std::size_t m, std::size_t source, std::size_t piece, std::uint64_t* tally, std::size_t part);
  void count_read(std::size_t m, std::size_t source, std::size_t count, std::uint64_t* tally);
  void join_block(collective_call const& call, std::size_t begin, std::size_t count, void* out);
  void join_pieces(std::size_t m, std::size_t begin, std::size_t count);
  void count_sent(std::size_t m, operation op, std::size_t elements, std::size_t element_size);
  void make_split();

  transfer_queue& queue(std::size_t source, std::size_t destination) { return queues_[source * size() + destination]; }

  std::shared_ptr<thread_world> world_;
  std::string name_;
  std::vector<member> members_;

  std::mutex mutex_;
  std::size_t arrived_ = 0;
  std::size_t first_ = 0;  // who called first
  bool committed_ = false;
  std::uint64_t pending_ = 0;  // changes with every pending call
  std::uint64_t seen_pending_ = 0;
  std::chrono::steady_clock::time_point seen_{};
  std::vector<transfer_queue> queues_;
  std::list<pending_subset> subsets_;

  std::unique_ptr<data_mover> mover_;     // null where the members' threads move the data
  std::vector<mover_call*> mover_calls_;  // of a committed call
  std::vector<void*> results_;            // of a committed all-reduce
  std::vector<void const*> sources_;      // of a committed reduction
  std::vector<void const*> in_piece_;     // [member, source]: likewise, of the piece that a member joins
  std::vector<std::uint64_t> tally_;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};  // changes when the state of a waiting call changes
  alignas(64) std::atomic<std::uint32_t> phase_{0};
  std::atomic<std::size_t> in_phase_{0};
};

}  // namespace heddle::comm::detail
