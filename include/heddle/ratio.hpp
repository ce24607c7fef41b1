// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <compare>
#include <cstdint>

namespace heddle {

/// An exact non-negative fraction, for shares that a plan fixes at compile time (a pipeline bubble, a utilisation).
///
/// Compared by value, never by spelling: `ratio{2, 10} == ratio{1, 5}`; no comparison overflows. `ratio{n, 0}` with
/// n > 0 is infinite and greater than every other; `ratio{0, 0}` has no value and equals only itself.
///
/// Laws: `r == r.normalised()`; `a <=> b` is the order of `a.num / a.den` and `b.num / b.den`.
struct ratio {
  std::uint64_t num = 0;
  std::uint64_t den = 1;

  /// Lowest terms; zero is 0/1.
  [[nodiscard]] constexpr ratio normalised() const {
    std::uint64_t a = num;
    std::uint64_t b = den;
    while (b != 0) {
      std::uint64_t const rest = a % b;
      a = b;
      b = rest;
    }
    return a == 0 ? ratio{0, 0} : ratio{num / a, den / a};
  }

  [[nodiscard]] constexpr double to_double() const { return static_cast<double>(num) / static_cast<double>(den); }

  friend constexpr bool operator==(ratio const& x, ratio const& y) {
    ratio const a = x.normalised();
    ratio const b = y.normalised();
    return a.num == b.num && a.den == b.den;
  }

  /// Unordered only where one side is 0/0.
  friend constexpr std::partial_ordering operator<=>(ratio const& x, ratio const& y) {
    if (x == y) return std::partial_ordering::equivalent;
    ratio a = x;
    ratio b = y;
    if ((a.num == 0 && a.den == 0) || (b.num == 0 && b.den == 0)) return std::partial_ordering::unordered;
    // Continued fractions: equal whole parts leave the comparison to the remainders, upside down.
    for (;;) {
      if (a.den == 0 || b.den == 0) return b.den <=> a.den;
      std::uint64_t const whole_a = a.num / a.den;
      std::uint64_t const whole_b = b.num / b.den;
      if (whole_a != whole_b) return whole_a <=> whole_b;
      ratio const flipped_a{b.den, b.num % b.den};
      ratio const flipped_b{a.den, a.num % a.den};
      a = flipped_a;
      b = flipped_b;
    }
  }
};

}  // namespace heddle
