// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include <heddle/comm/detail/data_mover.hpp>
#include <heddle/comm/detail/thread_call.hpp>

namespace heddle::comm::detail {

enum class transfer_state : std::uint8_t { posted, matched, done, broken };

/// One posted send or receive. It lives in the caller's frame or in an asynchronous record, and stays at its address
/// until it is done or withdrawn.
struct transfer {
  operation op = operation::send;
  element_kind kind = element_kind::byte;
  std::size_t element_size = 1;
  std::size_t count = 0;
  void const* from = nullptr;
  void* to = nullptr;
  std::size_t self = 0;  // positions in the group
  std::size_t peer = 0;
  std::atomic<transfer_state> state{transfer_state::posted};
  transfer* next = nullptr;
  mover_call* on_mover = nullptr;
  // the rest is for who watches over stalls, under the group's mutex
  bool waited = false;
  std::thread::id waiter{};
  std::chrono::steady_clock::time_point seen{};

  [[nodiscard]] bool sends() const { return op == operation::send; }
};

/// The posted sends, or the posted receives, of one ordered pair of ranks: first in, first out. Never both, because a
/// send and a receive that meet are matched.
struct transfer_queue {
  transfer* head = nullptr;
  transfer* tail = nullptr;

  void push(transfer& one) {
    one.next = nullptr;
    (tail != nullptr ? tail->next : head) = &one;
    tail = &one;
  }
  void pop() {
    head = head->next;
    if (head == nullptr) tail = nullptr;
  }
  /// False where `one` is not queued.
  bool remove(transfer& one) {
    transfer* before = nullptr;
    for (transfer* at = head; at != nullptr; before = at, at = at->next) {
      if (at != &one) continue;
      (before != nullptr ? before->next : head) = at->next;
      if (tail == at) tail = before;
      return true;
    }
    return false;
  }
};

}  // namespace heddle::comm::detail
