// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <heddle/backend/host/random_words.hpp>
#include <heddle/tensor/random_key.hpp>

namespace philox_test {

using heddle::random_key;
using heddle::random_stream;
using heddle::detail::philox4x32;
using heddle::detail::philox_block;

// Known answers of the authors' Random123 (kat_vectors, philox4x32 10).
static_assert(philox4x32({{0, 0, 0, 0}}, {{0, 0}}) ==
              philox_block{{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}});
static_assert(philox4x32({{0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}}, {{0xffffffffu, 0xffffffffu}}) ==
              philox_block{{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}});
static_assert(philox4x32({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, {{0xa4093822u, 0x299f31d0u}}) ==
              philox_block{{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}});

// Every part of the key matters, and so do the upper halves.
constexpr std::uint32_t word_of(random_key key, std::uint64_t index = 0, std::uint32_t draw = 0) {
  return random_stream{key}.word(index, draw);
}
static_assert(word_of({1, 0, 0}) != word_of({0, 0, 0}));
static_assert(word_of({std::uint64_t{1} << 32, 0, 0}) != word_of({0, 0, 0}));
static_assert(word_of({0, 1, 0}) != word_of({0, 0, 1}));
static_assert(word_of({0, std::uint64_t{1} << 32, 0}) != word_of({0, 0, std::uint64_t{1} << 32}));
static_assert(word_of({0, 0, 0}, 4) != word_of({0, 0, 0}, 5));
static_assert(word_of({0, 0, 0}, std::uint64_t{1} << 34) != word_of({0, 0, 0}));
static_assert(word_of({0, 0, 0}, 0, 1) != word_of({0, 0, 0}));

static_assert(heddle::uniform<float>(0xffffffffu) < 1.0f);
static_assert(heddle::uniform<double>(0xffffffffu) < 1.0);
static_assert(heddle::uniform<float>(0x80000000u) == 0.5f && heddle::uniform<double>(0x80000000u) == 0.5);
static_assert(heddle::uniform<double>(1) == 0x1p-32 && heddle::uniform<float>(0x1ff) == 0x1p-24f);

// Keep exactly when uniform<double>(word) >= p.
constexpr bool limit_is_exact(double p) {
  std::uint32_t const limit = heddle::dropout_limit(p);
  for (std::uint64_t delta = 0; delta < 5; ++delta) {
    auto const word = static_cast<std::uint32_t>(limit + delta - 2);
    if ((word > limit) != (heddle::uniform<double>(word) >= p)) return false;
  }
  return true;
}
static_assert(limit_is_exact(0.5) && limit_is_exact(0.1) && limit_is_exact(0.3) && limit_is_exact(1.0 / 3));
static_assert(heddle::dropout_limit(0x1p-40) == 0 && heddle::dropout_limit(0x1p-32) == 0);
static_assert(heddle::dropout_limit(1.0 - 0x1p-53) == 0xffffffffu);

TEST_CASE("many Philox calls side by side give the words of the scalar function") {
  random_stream const stream{{7, 8, 9}};
  for (std::uint64_t group :
       {std::uint64_t{0}, std::uint64_t{5}, (std::uint64_t{1} << 32) - 3, (std::uint64_t{1} << 61)})
    for (std::size_t groups : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 13u, 31u})
      for (std::uint32_t draw = 0; draw < 4; ++draw) {
        std::vector<std::uint32_t> words(4 * groups + 1, 42u);
        heddle::host::detail::philox_words(stream, group, groups, draw, words.data());
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < 4 * groups; ++i) wrong += words[i] != stream.word(4 * group + i, draw);
        CHECK(wrong == 0);
        CHECK(words.back() == 42u);
      }
}

TEST_CASE("the normal's own logarithm and cosine are those of the library") {
  double log_error = 0, cosine_error = 0;
  auto const at = [&](std::uint32_t w) {
    long double const u = (static_cast<long double>(w) + 1) * 0x1p-32L;
    long double const expected = -2 * std::log(u);
    double const found = heddle::detail::normal_radius_squared(w);
    if (expected != 0) log_error = std::fmax(log_error, static_cast<double>(std::fabs((found - expected) / expected)));
    long double const pi = 3.14159265358979323846264338327950288L;
    long double const cosine = std::cos(2 * pi * (static_cast<long double>(w) * 0x1p-32L));
    cosine_error = std::fmax(cosine_error, static_cast<double>(std::fabs(heddle::detail::normal_cosine(w) - cosine)));
  };
  for (std::uint32_t w : {0u, 1u, 2u, 0x3fffffffu, 0x40000000u, 0x7fffffffu, 0x80000000u, 0x80000001u, 0xb504f333u,
                          0xb504f334u, 0xc0000000u, 0xfffffffeu})
    at(w);
  random_stream const stream{{1, 2, 3}};
  for (std::uint64_t i = 0; i < 50000; ++i) at(stream.word(i));
  CHECK(log_error < 1e-15);
  CHECK(cosine_error < 3e-16);
  CHECK(heddle::detail::normal_radius_squared(0xffffffffu) == 0.0);
}

}  // namespace philox_test
