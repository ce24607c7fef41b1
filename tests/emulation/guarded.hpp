// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace heddle::emulation {

/// An array within a border. Around an input stands NaN, which spoils what is computed from outside; an output is NaN,
/// of which each element must be written, and around it stands a number, which must stay. The array begins at an
/// address of 16 bytes, and `shift` elements later.
template <class T>
class guarded {
 public:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr std::size_t border = 0;  ///< the sanitizer sees the array's own ends
#else
  static constexpr std::size_t border = 16;
#endif
  static constexpr int mark = -7;

  /// An output of `n`.
  explicit guarded(std::size_t n, std::size_t shift = 0) : guarded(std::vector<T>(n, nan()), T(mark), shift) {}
  /// An input.
  explicit guarded(std::vector<T> const& in, std::size_t shift = 0) : guarded(in, nan(), shift) {}
  /// What is added to; around it −0, which shows that 0 was added.
  static guarded sum(std::vector<T> const& in, std::size_t shift = 0) { return guarded(in, T(-0.0F), shift); }

  [[nodiscard]] T* data() { return all_.data() + begin_; }
  [[nodiscard]] T const* read() const { return all_.data() + begin_; }
  /// The array; the border is whole.
  [[nodiscard]] std::vector<T> values() const {
    auto const outside = static_cast<double>(around_);
    std::size_t touched = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      auto const one = static_cast<double>(all_[i]);
      bool const same =
          std::isnan(outside) ? std::isnan(one) : one == outside && std::signbit(one) == std::signbit(outside);
      if ((i < begin_ || i >= begin_ + n_) && !same) ++touched;
    }
    CHECK(touched == 0);
    return {read(), read() + n_};
  }

 private:
  guarded(std::vector<T> const& in, T around, std::size_t shift)
      : n_(in.size()), begin_(border + shift), all_(n_ + 2 * border + shift, around), around_(around) {
    for (std::size_t i = 0; i < n_; ++i) all_[begin_ + i] = in[i];
  }
  static T nan() { return T(std::numeric_limits<float>::quiet_NaN()); }

  std::size_t n_, begin_;
  std::vector<T> all_;
  T around_;
};

}  // namespace heddle::emulation
