// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include <heddle/comm/detail/thread_watch.hpp>

namespace heddle::comm::detail {
class thread_rank;
}  // namespace heddle::comm::detail

namespace heddle::comm {

/// An asynchronous operation of a `thread_communicator`.
///
/// The destructor waits for an operation that nobody waited for; what goes wrong then is thrown by the next call, and
/// by `run_threads`. While an exception unwinds the stack it does not wait: the operation is taken back, and the rank
/// may not communicate any more.
class thread_handle {
 public:
  /// A handle of nothing, which is done.
  thread_handle() = default;
  thread_handle(thread_handle&& other) noexcept
      : group_(std::move(other.group_)), record_(std::exchange(other.record_, nullptr)) {}
  thread_handle& operator=(thread_handle&& other) noexcept {
    if (this == &other) return *this;
    close();
    group_ = std::move(other.group_);
    record_ = std::exchange(other.record_, nullptr);
    return *this;
  }
  ~thread_handle() { close(); }

  /// Returns when the operation has ended and the buffers are the caller's again; throws what ended the run. Waiting
  /// again returns at once.
  void wait() {
    if (record_ == nullptr) return;
    try {
      if (record_->transfers) {
        group_->wait(record_->move);
      } else {
        detail::thread_engine& engine = group_->engine(record_->member);
        engine.wait(*record_);
        if (record_->state.load(std::memory_order_acquire) != detail::record_state::done)
          group_->world().throw_failure();
      }
    } catch (...) {
      release();
      throw;
    }
    release();
  }

  /// Whether `wait()` would return, or throw, without waiting.
  [[nodiscard]] bool done() const noexcept {
    if (record_ == nullptr) return true;
    if (!record_->transfers) return record_->state.load(std::memory_order_acquire) != detail::record_state::pending;
    detail::transfer_state const state = record_->move.state.load(std::memory_order_acquire);
    return state == detail::transfer_state::done || state == detail::transfer_state::broken;
  }

 private:
  friend class detail::thread_rank;
  thread_handle(std::shared_ptr<detail::thread_group> group, detail::async_record& record)
      : group_(std::move(group)), record_(&record) {}

  void release() noexcept {
    group_->engine(record_->member).give(*record_);
    record_ = nullptr;
    group_.reset();
  }

  void close() noexcept {
    if (record_ == nullptr) return;
    if (std::uncaught_exceptions() == 0) {
      try {
        wait();
      } catch (...) {  // the run has failed: the next call says so, and run_threads does
      }
      return;
    }
    detail::thread_engine& engine = group_->engine(record_->member);
    bool ended = true;
    operation op = record_->call.op;
    if (record_->transfers) {
      group_->withdraw(record_->move);
      ended = record_->move.state.load(std::memory_order_acquire) == detail::transfer_state::done;
      op = record_->move.op;
    } else {
      ended = engine.abandon(*record_);
    }
    if (!ended)
      engine.note_abandoned(
          detail::joined_text({"rank ", engine.rank(), " failed: an exception left an unfinished ", name_of(op), " on ",
                               detail::in_quotes(group_->name()),
                               " behind, so the rank cannot communicate any more; let the exception leave the rank's "
                               "function, or wait for the handle before it"}));
    release();
  }

  std::shared_ptr<detail::thread_group> group_;
  detail::async_record* record_ = nullptr;
};

}  // namespace heddle::comm
