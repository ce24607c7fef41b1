// SPDX-License-Identifier: Apache-2.0
#pragma once
// The calls of a thread group: how members meet, and how a call is refused, taken back or broken off.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <heddle/comm/detail/thread_engine.hpp>
#include <heddle/comm/detail/thread_group.hpp>
#include <heddle/comm/detail/thread_group_data.hpp>
#include <heddle/comm/detail/thread_group_text.hpp>

namespace heddle::comm::detail {

/// Up to this many bytes given by all members together, the last member does the work of all: waking the others twice
/// more costs as much as copying this on one core.
inline constexpr std::size_t whole_call_bytes = 128 * 1024;

inline thread_group::thread_group(std::shared_ptr<thread_world> world, std::string name, std::vector<std::size_t> ranks)
    : world_(std::move(world)),
      name_(std::move(name)),
      members_(ranks.size()),
      queues_(ranks.size() * ranks.size()),
      mover_(world_->movers == nullptr ? nullptr : world_->movers->of(ranks)),
      mover_calls_(ranks.size()),
      results_(ranks.size()),
      sources_(ranks.size()),
      in_piece_(ranks.size() * ranks.size()),
      tally_(ranks.size()) {
  for (std::size_t m = 0; m < ranks.size(); ++m) members_[m].rank = ranks[m];
}

inline communication_counters thread_group::counters(std::size_t m) const {
  communication_counters result;
  for (std::size_t k = 0; k < operation_count; ++k) {
    counter_cell const& cell = members_[m].counters[k];
    result.of[k] = {cell.calls.load(std::memory_order_relaxed), cell.elements.load(std::memory_order_relaxed),
                    cell.bytes.load(std::memory_order_relaxed)};
  }
  return result;
}

inline thread_group::call_state thread_group::await(member& me) {
  for (;;) {
    std::uint32_t const before = epoch_.load(std::memory_order_acquire);
    call_state const state = me.state.load(std::memory_order_acquire);
    if (state != call_state::waiting) return state;
    epoch_.wait(before, std::memory_order_acquire);
  }
}

/// Ends the committed call for all its members, who wait for `state`.
inline void thread_group::release(call_state state) {
  {
    std::lock_guard lock(mutex_);
    for (member& one : members_) {
      one.present = false;
      one.state.store(state, std::memory_order_release);
    }
    arrived_ = 0;
    committed_ = false;
  }
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
}

/// A barrier of the members inside a committed call, which all of them reach.
inline void thread_group::internal_barrier() {
  std::uint32_t const before = phase_.load(std::memory_order_acquire);
  if (in_phase_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
    in_phase_.store(0, std::memory_order_relaxed);
    phase_.fetch_add(1, std::memory_order_seq_cst);
    phase_.notify_all();
  } else {
    while (phase_.load(std::memory_order_acquire) == before) phase_.wait(before, std::memory_order_acquire);
  }
}

inline void thread_group::collective(std::size_t m, collective_call const& call, std::atomic<bool> const* token) {
  member& me = members_[m];
  std::unique_lock lock(mutex_);
  auto const refuse = [&](failure_kind kind, std::string text) {
    lock.unlock();
    world_->fail_and_throw({kind, me.rank, std::move(text), nullptr});
  };
  if (world_->failed()) {
    lock.unlock();
    world_->throw_failure();
  }
  if (token != nullptr && token->load(std::memory_order_acquire)) throw call_withdrawn{};
  if (me.present)
    refuse(failure_kind::rank, joined_text({who(m), " failed: two threads call ", in_quotes(name_),
                                            " at the same time; give each thread its own communicator"}));
  if (arrived_ == 0) {
    first_ = m;
    ++pending_;
  } else if (!same_call(members_[first_].call, call)) {
    refuse(failure_kind::mismatch, unlike_calls_text(m, call));
  }
  me.call = call;
  me.token = token;
  if (token == nullptr) me.thread = std::this_thread::get_id();
  ++me.number;
  me.present = true;
  me.state.store(call_state::waiting, std::memory_order_relaxed);
  if (++arrived_ < size()) {
    if (world_->any_finished()) {
      for (std::size_t q = 0; q < size(); ++q)
        if (!members_[q].present && engine(q).finished.load(std::memory_order_acquire))
          refuse(failure_kind::left, missing_text());
    }
    lock.unlock();
  } else {
    if (call.unequal()) {
      std::string text = unequal_mismatch();
      if (!text.empty()) refuse(failure_kind::mismatch, std::move(text));
    }
    committed_ = true;
    lock.unlock();
    std::size_t bytes = call.count * call.element_size * size();
    if (call.unequal()) {
      std::size_t count = 0;
      for (member const& one : members_)
        for (std::size_t q = 0; q < size(); ++q) count += one.call.send_counts[q];
      bytes = count * call.element_size;
    }
    if (call.reduces())
      for (std::size_t q = 0; q < size(); ++q) sources_[q] = members_[q].call.in;
    if (bytes <= whole_call_bytes || size() == 1 || mover_ != nullptr) {
      try {
        run_whole();
      } catch (std::exception const& e) {  // a split that found no memory, or a device that refused
        world_->fail({failure_kind::rank, me.rank, joined_text({who(m), " failed: ", e.what()}), nullptr});
        release(call_state::broken);
        world_->throw_failure();
      }
      release(call_state::completed);
      return;
    }
    for (member& one : members_) one.state.store(call_state::committed, std::memory_order_release);
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    epoch_.notify_all();
  }

  switch (await(me)) {
    case call_state::idle:
    case call_state::waiting:
    case call_state::completed:
      return;
    case call_state::withdrawn:
      throw call_withdrawn{};
    case call_state::broken:
      world_->throw_failure();
    case call_state::committed:
      break;
  }
  run_first(m, nullptr);
  if (call.op == operation::all_reduce) {
    internal_barrier();
    run_second(m, nullptr);
  }
  // Nobody leaves while others may read its buffers; the last to get here opens the group for the next call.
  if (in_phase_.fetch_add(1, std::memory_order_acq_rel) + 1 == size()) {
    in_phase_.store(0, std::memory_order_relaxed);
    release(call_state::completed);
  } else {
    for (;;) {
      std::uint32_t const before = epoch_.load(std::memory_order_acquire);
      if (me.state.load(std::memory_order_acquire) != call_state::committed) return;
      epoch_.wait(before, std::memory_order_acquire);
    }
  }
}

inline void thread_group::withdraw(std::size_t m, std::atomic<bool> const& token) {
  member& me = members_[m];
  {
    std::lock_guard lock(mutex_);
    if (!me.present || committed_ || me.token != &token) return;
    me.present = false;
    --arrived_;
    for (std::size_t q = 0; q < size(); ++q)
      if (members_[q].present) first_ = q;
    me.state.store(call_state::withdrawn, std::memory_order_release);
  }
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
}

inline void thread_group::post(transfer& one) {
  transfer_queue& posted = one.sends() ? queue(one.self, one.peer) : queue(one.peer, one.self);
  one.waited = false;
  one.state.store(transfer_state::posted, std::memory_order_relaxed);
  std::unique_lock lock(mutex_);
  if (world_->failed()) {
    lock.unlock();
    world_->throw_failure();
  }
  members_[one.self].thread = std::this_thread::get_id();
  if (posted.head == nullptr || posted.head->op == one.op) {
    posted.push(one);
    return;
  }
  transfer& other = *posted.head;
  if (other.kind != one.kind || other.count != one.count) {
    std::string text = unlike_transfers_text(other, one);
    lock.unlock();
    world_->fail_and_throw({failure_kind::mismatch, members_[one.self].rank, std::move(text), nullptr});
  }
  posted.pop();
  other.state.store(transfer_state::matched, std::memory_order_relaxed);
  lock.unlock();

  // Whoever comes second copies.
  transfer const& from = one.sends() ? one : other;
  transfer const& to = one.sends() ? other : one;
  if (mover_ != nullptr) {
    try {
      mover_->move(from, to);
    } catch (std::exception const& e) {
      std::size_t const broken = other.self;
      world_->fail(
          {failure_kind::rank, members_[one.self].rank, joined_text({who(one.self), " failed: ", e.what()}), nullptr});
      other.state.store(transfer_state::broken, std::memory_order_release);
      members_[broken].signal.fetch_add(1, std::memory_order_seq_cst);
      members_[broken].signal.notify_all();
      world_->throw_failure();
    }
  } else if (one.count != 0) {
    std::memcpy(to.to, from.from, one.count * one.element_size);
  }
  count_sent(from.self, operation::send, one.count, one.element_size);
  one.state.store(transfer_state::done, std::memory_order_relaxed);
  std::size_t const owner = other.self;
  other.state.store(transfer_state::done, std::memory_order_release);  // its owner may now reuse `other`
  members_[owner].signal.fetch_add(1, std::memory_order_seq_cst);
  members_[owner].signal.notify_all();
}

inline void thread_group::wait(transfer& one) {
  member& me = members_[one.self];
  bool noted = false;
  for (;;) {
    std::uint32_t const before = me.signal.load(std::memory_order_acquire);
    transfer_state const state = one.state.load(std::memory_order_acquire);
    if (state == transfer_state::done) return;
    if (state == transfer_state::broken) world_->throw_failure();
    if (!noted) {
      noted = true;
      std::unique_lock lock(mutex_);
      if (one.state.load(std::memory_order_relaxed) != transfer_state::posted) continue;
      one.waited = true;
      one.waiter = std::this_thread::get_id();
      one.seen = {};
      if (engine(one.peer).finished.load(std::memory_order_acquire)) {
        std::string text = waits_for_left_text(one);
        lock.unlock();
        world_->fail({failure_kind::left, me.rank, std::move(text), nullptr});
      }
      continue;  // also after a failure: `one` may go only when it is queued no more
    }
    me.signal.wait(before, std::memory_order_acquire);
  }
}

inline void thread_group::withdraw(transfer& one) {
  {
    std::lock_guard lock(mutex_);
    transfer_queue& posted = one.sends() ? queue(one.self, one.peer) : queue(one.peer, one.self);
    if (posted.remove(one)) one.state.store(transfer_state::broken, std::memory_order_relaxed);
  }
  for (;;) {  // a copy that is under way ends by itself
    std::uint32_t const before = members_[one.self].signal.load(std::memory_order_acquire);
    if (one.state.load(std::memory_order_acquire) != transfer_state::matched) return;
    members_[one.self].signal.wait(before, std::memory_order_acquire);
  }
}

inline void thread_group::break_waits() {
  {
    std::lock_guard lock(mutex_);
    if (!committed_) {
      for (member& one : members_) {
        if (!one.present) continue;
        one.present = false;
        one.state.store(call_state::broken, std::memory_order_release);
      }
      arrived_ = 0;
    }
    for (transfer_queue& posted : queues_) {
      for (transfer* at = posted.head; at != nullptr;) {
        transfer* const next = at->next;  // the owner may reuse `at` once it is broken
        at->state.store(transfer_state::broken, std::memory_order_release);
        at = next;
      }
      posted = {};
    }
  }
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  epoch_.notify_all();
  for (member& one : members_) {
    one.signal.fetch_add(1, std::memory_order_seq_cst);
    one.signal.notify_all();
  }
}

inline std::shared_ptr<thread_group> thread_group::subset(std::size_t m, std::vector<std::size_t> const& list,
                                                          std::string const& label) {
  std::shared_ptr<thread_group> made;
  for (;;) {
    std::unique_lock lock(mutex_);
    if (world_->failed()) {
      lock.unlock();
      world_->throw_failure();
    }
    for (auto at = subsets_.begin(); at != subsets_.end(); ++at) {
      pending_subset& one = *at;
      auto const mine = std::find(one.missing.begin(), one.missing.end(), m);
      if (mine == one.missing.end() || one.list.size() != list.size()) continue;
      if (one.list != list || one.label != label) {
        if (!std::is_permutation(list.begin(), list.end(), one.list.begin())) continue;
        std::string text = unlike_subsets_text(m, list, label, one);
        lock.unlock();
        world_->fail_and_throw({failure_kind::mismatch, members_[m].rank, std::move(text), nullptr});
      }
      one.missing.erase(mine);
      std::shared_ptr<thread_group> group = one.group;
      if (one.missing.empty()) subsets_.erase(at);
      return group;
    }
    if (made != nullptr) {
      subsets_.push_back({list, label, list, made});
      continue;
    }
    lock.unlock();
    std::vector<std::size_t> ranks;
    for (std::size_t const position : list) ranks.push_back(members_[position].rank);
    made = std::make_shared<thread_group>(world_, label, std::move(ranks));
    world_->add(made);  // before anyone can wait in it, so that a failure reaches them
  }
}

}  // namespace heddle::comm::detail
