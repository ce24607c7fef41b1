// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace heddle {

/// One allocation whose layout is known at compile time: aligned to cache lines, filled with zeros by the rank that
/// will use it (so that pages are mapped and near). Nothing is taken or given back in a step.
template <class T>
class arena {
 public:
  arena() = default;
  explicit arena(std::size_t elements) : elements_(elements) {
    if (elements == 0) return;
    data_.reset(static_cast<T*>(::operator new (bytes(), std::align_val_t{alignment})));
    std::memset(static_cast<void*>(data_.get()), 0, bytes());
  }
  [[nodiscard]] T* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return elements_; }
  [[nodiscard]] std::size_t bytes() const { return elements_ * sizeof(T); }

 private:
  static constexpr std::size_t alignment = 64;
  struct release {
    void operator()(T* p) const { ::operator delete (static_cast<void*>(p), std::align_val_t{alignment}); }
  };
  std::unique_ptr<T, release> data_;
  std::size_t elements_ = 0;
};

}  // namespace heddle
