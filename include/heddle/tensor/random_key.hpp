// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdint>

#include <heddle/detail/host_device.hpp>
#include <heddle/detail/philox.hpp>

namespace heddle {

/// What one tensor of random numbers depends on, beside the *global* index of each element: the seed of the run, the
/// step (with the micro-batch in it, where there is one), and the site (which parameter, or which dropout of which
/// layer). No rank, no layout, no call count: so every plan, recomputation and device draws the same numbers.
struct random_key {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t site = 0;
  friend constexpr bool operator==(random_key const&, random_key const&) = default;
};

/// A key whose step may lie in the memory of who draws: work that is recorded once, and replayed at every step, finds
/// it there anew.
struct step_key {
  random_key given;
  std::uint64_t const* step = nullptr;  ///< in the place of `given.step`, unless it is null

  constexpr explicit step_key(random_key const& key, std::uint64_t const* in_memory = nullptr)
      : given(key), step(in_memory) {}
  /// Where that memory can be read.
  constexpr explicit operator random_key() const {
    return step == nullptr ? given : random_key{given.seed, *step, given.site};
  }
};

/// The numbers of one key, ready to be drawn from.
///
/// Mapping, with P = Philox4x32-10 and (lo, hi) the halves of a 64-bit value:
///
///     S               = P(counter = (lo step, hi step, lo site, hi site), key = (lo seed, hi seed))
///     word(i, draw)   = P(counter = (lo b, hi b, S0, S1), key = (S2, S3)) [i mod 4],   b = i / 4 + draw · 2^62
///
/// P is a bijection of its counter, so two keys of one seed never share a stream. Four neighbouring indices share one
/// call of P and take its four different words; `draw` in 0..3 gives an element further words of its own.
class random_stream {
 public:
  constexpr random_stream() = default;
  HEDDLE_HOST_DEVICE explicit constexpr random_stream(random_key const& key) {
    detail::philox_block const s = detail::philox4x32({{low(key.step), high(key.step), low(key.site), high(key.site)}},
                                                      {{low(key.seed), high(key.seed)}});
    counter_[0] = s.word[0];
    counter_[1] = s.word[1];
    key_ = {{s.word[2], s.word[3]}};
  }

  /// The four words of the elements 4·group .. 4·group+3; `group` < 2^62, `draw` < 4.
  [[nodiscard]] HEDDLE_HOST_DEVICE constexpr detail::philox_block block(std::uint64_t group,
                                                                        std::uint32_t draw = 0) const {
    return detail::philox4x32(counter(group, draw), key_);
  }

  /// The word of one element.
  [[nodiscard]] HEDDLE_HOST_DEVICE constexpr std::uint32_t word(std::uint64_t index, std::uint32_t draw = 0) const {
    return block(index / 4, draw).word[index % 4];
  }

  /// Counter and key of a group, for code that runs many Philox calls side by side.
  [[nodiscard]] HEDDLE_HOST_DEVICE constexpr detail::philox_block counter(std::uint64_t group,
                                                                          std::uint32_t draw) const {
    std::uint64_t const b = group + (std::uint64_t{draw} << 62);
    return {{low(b), high(b), counter_[0], counter_[1]}};
  }
  [[nodiscard]] HEDDLE_HOST_DEVICE constexpr detail::philox_key key() const { return key_; }

 private:
  HEDDLE_HOST_DEVICE static constexpr std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
  HEDDLE_HOST_DEVICE static constexpr std::uint32_t high(std::uint64_t x) {
    return static_cast<std::uint32_t>(x >> 32);
  }

  std::uint32_t counter_[2]{};
  detail::philox_key key_{};
};

/// A word as a number in [0, 1). double: word · 2^-32, exact. float: the upper 24 bits, (word >> 8) · 2^-24, exact,
/// which is the double rounded down, so never 1.
template <class T>
[[nodiscard]] HEDDLE_HOST_DEVICE constexpr T uniform(std::uint32_t word) {
  if constexpr (sizeof(T) == sizeof(double))
    return static_cast<T>(word) * static_cast<T>(0x1p-32);
  else
    return static_cast<T>(word >> 8) * static_cast<T>(0x1p-24);
}

/// Dropout with probability p in [0, 1) keeps an element if `uniform<double>(word) >= p`, that is if `word > limit`
/// with the limit below (p > 0): the same decision in every element type.
[[nodiscard]] HEDDLE_HOST_DEVICE constexpr std::uint32_t dropout_limit(double p) {
  double const scaled = p * 0x1p32;
  auto const whole = static_cast<std::uint64_t>(scaled);
  bool const exact = static_cast<double>(whole) == scaled;
  return static_cast<std::uint32_t>(whole - (exact ? 1u : 0u));
}

namespace detail {

/// -2 ln((word_0 + 1) · 2^-32).
HEDDLE_HOST_DEVICE inline double normal_radius_squared(std::uint32_t word_0) {
  double const u = static_cast<double>(word_0) + 1.0;  // exact, 1 .. 2^32
  // u = m · 2^e with m in [sqrt(1/2), sqrt(2)): the offset moves the cut of the exponent field from 1 to sqrt(1/2).
  std::uint64_t const sqrt_half = 0x3FE6A09E667F3BCDu;
  std::uint64_t const shifted = __builtin_bit_cast(std::uint64_t, u) - sqrt_half;
  auto const e = static_cast<std::int32_t>(static_cast<std::uint32_t>(shifted >> 52));
  double const m = __builtin_bit_cast(double, (shifted & 0x000FFFFFFFFFFFFFu) + sqrt_half);
  // ln m = 2 artanh s, s = (m - 1) / (m + 1), |s| < 0.172: the series to s^19 is cut below 1e-17.
  double const s = (m - 1.0) / (m + 1.0);
  double const z = s * s;
  double t = 1.0 / 19;
  t = std::fma(t, z, 1.0 / 17);
  t = std::fma(t, z, 1.0 / 15);
  t = std::fma(t, z, 1.0 / 13);
  t = std::fma(t, z, 1.0 / 11);
  t = std::fma(t, z, 1.0 / 9);
  t = std::fma(t, z, 1.0 / 7);
  t = std::fma(t, z, 1.0 / 5);
  t = std::fma(t, z, 1.0 / 3);
  double const tail = z * t;                     // artanh(s) / s - 1
  double const half_log = std::fma(s, tail, s);  // ln(m) / 2
  constexpr double minus_2_ln2 = -1.3862943611198906188;
  return std::fma(static_cast<double>(e - 32), minus_2_ln2, -4.0 * half_log);
}

/// cos(2π · word_1 · 2^-32), as sin(π/2 · w) with w = 1 - 4 · (distance of the angle from 0, in turns), in [-1, 1].
HEDDLE_HOST_DEVICE inline double normal_cosine(std::uint32_t word_1) {
  auto const turn = static_cast<std::int32_t>(word_1);  // [-1/2, 1/2) turns
  double const signed_turns = static_cast<double>(turn);
  double const distance = signed_turns < 0.0 ? -signed_turns : signed_turns;
  double const w = std::fma(distance, -0x1p-30, 1.0);  // exact
  double const x = w * 1.5707963267948966192;
  double const z = x * x;
  double t = 1.0 / 51090942171709440000.0;  // 1 / 21!
  t = std::fma(t, z, -1.0 / 121645100408832000.0);
  t = std::fma(t, z, 1.0 / 355687428096000.0);
  t = std::fma(t, z, -1.0 / 1307674368000.0);
  t = std::fma(t, z, 1.0 / 6227020800.0);
  t = std::fma(t, z, -1.0 / 39916800.0);
  t = std::fma(t, z, 1.0 / 362880.0);
  t = std::fma(t, z, -1.0 / 5040.0);
  t = std::fma(t, z, 1.0 / 120.0);
  t = std::fma(t, z, -1.0 / 6.0);
  double const tail = z * t;
  return std::fma(x, tail, x);
}

}  // namespace detail

/// A standard normal number from two words of one element, by Box and Muller's formula
/// sqrt(-2 ln u) · cos(2π v) with u = (word_0 + 1) · 2^-32 in (0, 1], v = word_1 · 2^-32; |result| < 6.67.
///
/// Logarithm and cosine are evaluated here, in double, by +, ·, /, sqrt and explicit fma alone, each of which IEEE 754
/// rounds in one way: so initial weights agree to the bit between compilers, instruction sets, host and device (a
/// library's log and cos do not). Relative error of -2 ln u below 1e-15, absolute error of the cosine below 3e-16.
[[nodiscard]] HEDDLE_HOST_DEVICE inline double normal(std::uint32_t word_0, std::uint32_t word_1) {
  return std::sqrt(detail::normal_radius_squared(word_0)) * detail::normal_cosine(word_1);
}

}  // namespace heddle
