// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a rank over NCCL keeps from call to call until its run ends.
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/detail/nccl_link.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace heddle::cuda::detail {

/// Calls, with their events. Its members are called under the mutex of the rank.
class nccl_call_pool {
 public:
  [[nodiscard]] nccl_call& take() {
    if (free_.empty()) {
      free_.reserve(all_.size() + 1);  // so that giving back allocates nothing
      all_.push_back(std::make_unique<nccl_call>());
      free_.push_back(all_.back().get());
    }
    nccl_call& one = *free_.back();
    free_.pop_back();
    one.issued = one.watched = one.has_more = false;
    one.held = true;
    one.made = nullptr;
    return one;
  }
  /// Nobody holds it any more.
  void give(nccl_call& one) {
    one.held = false;
    if (!one.watched) free_.push_back(&one);
  }
  /// No link has it any more.
  void forget(nccl_call& one) {
    one.watched = false;
    if (!one.held) free_.push_back(&one);
  }
  void clear() {
    free_.clear();
    all_.clear();
  }

 private:
  std::vector<std::unique_ptr<nccl_call>> all_;
  std::vector<nccl_call*> free_;
};

/// Where the members of a new group tell each other who they are: two numbers of each.
struct meeting_room {
  explicit meeting_room(std::size_t ranks) : host(2 * ranks), device(2 * ranks) {}
  pinned_arena<std::uint64_t> host;
  device_arena<std::uint64_t> device;
  bool taken = false;
};

/// Such rooms. They are kept, and the first is made before a rank can wait for another: to allocate and to free can
/// wait for a device.
class meeting_rooms {
 public:
  /// Of groups of at most so many ranks.
  explicit meeting_rooms(std::size_t ranks) : ranks_(ranks) { rooms_.push_back(std::make_unique<meeting_room>(ranks)); }
  [[nodiscard]] meeting_room& take() {
    std::unique_lock lock(mutex_);
    for (auto const& one : rooms_)
      if (!std::exchange(one->taken, true)) return *one;
    lock.unlock();
    auto made = std::make_unique<meeting_room>(ranks_);
    made->taken = true;
    lock.lock();
    rooms_.push_back(std::move(made));
    return *rooms_.back();
  }
  void give(meeting_room& one) {
    std::lock_guard const lock(mutex_);
    one.taken = false;
  }
  void clear() {
    std::lock_guard const lock(mutex_);
    rooms_.clear();
  }

 private:
  std::size_t ranks_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<meeting_room>> rooms_;
};

}  // namespace heddle::cuda::detail
