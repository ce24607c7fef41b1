// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "vector_clock.hpp"

namespace heddle::emulation {

/// Where memory has to lie that an operation uses. `mapped` is what a kernel may use: device memory, or pinned.
enum class side : std::uint8_t { device, host, either, mapped };

/// Bytes that an operation uses: `rows` rows of `width`, each `pitch` behind the one before.
struct range {
  std::uintptr_t begin = 0;
  std::size_t width = 0, rows = 1, pitch = 0;
  bool written = false;
  side where = side::device;

  [[nodiscard]] bool empty() const { return width == 0 || rows == 0; }
  [[nodiscard]] std::uintptr_t end() const { return begin + (rows - 1) * pitch + width; }
};
[[nodiscard]] bool overlap(range const& a, range const& b);

/// An operation of a stream: the how manyth, and its text.
struct actor {
  std::size_t lane = 0;
  std::uint64_t tick = 0;
  std::shared_ptr<std::string const> text;
};

/// Who used which bytes of each allocation last. Two operations race when they use a byte, one of them writes, and
/// neither comes before the other by a stream's order, an event or the host's waiting.
class access_log {
 public:
  /// Enters a use by `who`, who knows `before`. Returns the operation that it races with, or an empty text.
  std::string enter(std::uintptr_t allocation, range const& used, actor const& who, vector_clock const& before);
  /// The allocation is gone.
  void forget(std::uintptr_t allocation) { used_.erase(allocation); }
  /// What everybody knows cannot race any more.
  void forget_before(vector_clock const& known);

 private:
  struct use {
    range bytes;
    actor who;
  };
  std::map<std::uintptr_t, std::vector<use>> used_;
};

}  // namespace heddle::emulation
