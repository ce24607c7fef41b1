// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/detail/pages.hpp>

#include <cstddef>

namespace heddle::host::detail {

/// Memory that grows to the largest request and is kept: a step allocates nothing once every primitive has run.
class workspace {
 public:
  static workspace& of_this_thread() {
    static thread_local workspace instance;
    return instance;
  }

  /// At least `bytes` bytes, aligned for any packet; the contents are lost when it grows.
  [[nodiscard]] std::byte* get(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      size_ = 0;
      memory_ = heddle::detail::allocate_block(bytes);
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  heddle::detail::memory_block memory_;
  std::size_t size_ = 0;
};

}  // namespace heddle::host::detail
