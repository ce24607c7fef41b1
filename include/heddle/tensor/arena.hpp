// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>
#include <heddle/detail/pages.hpp>

namespace heddle {

/// One allocation whose layout is known at compile time: aligned to cache lines, filled with zeros by the rank that
/// will use it (so that pages are mapped and near), in huge pages where it is large and the system gives them. Nothing
/// is taken or given back in a step.
template <class T>
class arena {
 public:
  arena() = default;
  explicit arena(std::size_t elements) : elements_(elements) {
    if (elements == 0) return;
    memory_ = detail::allocate_block(bytes());
    std::memset(memory_.get(), 0, bytes());
  }
  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(memory_.get()); }
  [[nodiscard]] std::size_t size() const { return elements_; }
  [[nodiscard]] std::size_t bytes() const { return elements_ * sizeof(T); }

 private:
  detail::memory_block memory_;
  std::size_t elements_ = 0;
};

}  // namespace heddle
