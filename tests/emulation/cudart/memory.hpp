// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "accesses.hpp"

namespace heddle::emulation {

/// What cudaMalloc or cudaHostAlloc gave, alive or freed.
struct allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  bool pinned = false;
  int device = 0;
  unsigned number = 0;
  bool live = true;
};
/// "device memory 3 (4096 bytes)"
[[nodiscard]] std::string text_of(allocation const& one);

/// All allocations. New memory holds no number: every byte is 255, which makes NaN of every floating type. Freed memory
/// is filled so again, and kept for a while, so that a late use is known for one.
class memory_registry {
 public:
  static constexpr std::size_t alignment = 256;

  memory_registry() = default;
  memory_registry(memory_registry const&) = delete;
  memory_registry& operator=(memory_registry const&) = delete;
  ~memory_registry() { clear(); }

  allocation const& allocate(std::size_t bytes, bool pinned, int device);
  /// Frees `one`. Returns what is wrong with the bytes around it, or an empty text.
  std::string release(allocation const& one);
  /// The allocation that holds `address`, alive or freed lately, or none.
  [[nodiscard]] allocation const* find(std::uintptr_t address) const;
  /// What is wrong with a use of these bytes by work of `device`, or an empty text; and the allocation, if it is one.
  [[nodiscard]] std::string fault_of(range const& used, allocation const** found) const;
  /// Runs `body()`, which may use nothing of devices' memory but these bytes. Returns what it did beside, or an empty
  /// text.
  std::string run_confined(std::vector<range> const& uses, std::function<void()> const& body) const;
  /// Live ones, or the bytes of them.
  [[nodiscard]] std::size_t count() const;
  [[nodiscard]] std::size_t bytes(bool pinned, int device) const;
  /// Forgets, and gives back, everything.
  void clear();

 private:
  std::map<std::uintptr_t, allocation> all_;
  std::deque<std::uintptr_t> freed_;
  std::size_t freed_bytes_ = 0;
  unsigned number_ = 0;
};

}  // namespace heddle::emulation
