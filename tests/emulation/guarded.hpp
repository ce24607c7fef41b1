// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "values.hpp"

namespace heddle::emulation {

/// An array within a border. Around an input stands NaN, which spoils what is computed from outside; an output is NaN,
/// of which each element must be written, and around it stands a number, which must stay. Integers, which have no NaN,
/// have their least number: no id, and no index that can be used. The array begins at an address of 16 bytes, and
/// `shift` elements later. Its elements go in and come out as `wide<T>`.
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
  explicit guarded(std::size_t n, std::size_t shift = 0)
      : guarded(std::vector<wide<T>>(n, nothing()), wide<T>(mark), shift) {}
  /// An input.
  explicit guarded(std::vector<wide<T>> const& in, std::size_t shift = 0) : guarded(in, nothing(), shift) {}
  /// What is added to; around it −0, which shows that 0 was added.
  static guarded sum(std::vector<wide<T>> const& in, std::size_t shift = 0) {
    return guarded(in, wide<T>(-0.0F), shift);
  }

  [[nodiscard]] T* data() { return all_.data() + begin_; }
  [[nodiscard]] T const* read() const { return all_.data() + begin_; }
  /// The array; the border is whole.
  [[nodiscard]] std::vector<wide<T>> values() const {
    auto const outside = static_cast<double>(around_);
    std::size_t touched = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      auto const one = static_cast<double>(static_cast<wide<T>>(all_[i]));
      bool const same =
          std::isnan(outside) ? std::isnan(one) : one == outside && std::signbit(one) == std::signbit(outside);
      if ((i < begin_ || i >= begin_ + n_) && !same) ++touched;
    }
    CHECK(touched == 0);
    std::vector<wide<T>> inside;
    for (std::size_t i = 0; i < n_; ++i) inside.push_back(static_cast<wide<T>>(read()[i]));
    return inside;
  }

 private:
  guarded(std::vector<wide<T>> const& in, wide<T> around, std::size_t shift)
      : n_(in.size()), begin_(border + shift), all_(n_ + 2 * border + shift, T(around)), around_(around) {
    for (std::size_t i = 0; i < n_; ++i) all_[begin_ + i] = T(in[i]);
  }
  static wide<T> nothing() {
    if constexpr (std::is_integral_v<T>)
      return std::numeric_limits<T>::min();
    else
      return std::numeric_limits<wide<T>>::quiet_NaN();
  }

  std::size_t n_, begin_;
  std::vector<T> all_;
  wide<T> around_;
};

}  // namespace heddle::emulation
