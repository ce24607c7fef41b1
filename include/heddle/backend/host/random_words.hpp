// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <heddle/detail/philox.hpp>
#include <heddle/tensor/random_key.hpp>

namespace heddle::host::detail {

using heddle::detail::philox_block;
using heddle::detail::philox_key;
using heddle::detail::philox_multiplier_0;
using heddle::detail::philox_multiplier_1;
using heddle::detail::philox_rounds;
using heddle::detail::philox_weyl_0;
using heddle::detail::philox_weyl_1;

/// One round on a lane of many: `philox4x32` with its key schedule unrolled, in the form compilers vectorise.
template <int Round>
constexpr void philox_lane(std::uint32_t (&c)[4], std::uint32_t k0, std::uint32_t k1) {
  if constexpr (Round < philox_rounds) {
    std::uint64_t const p0 = std::uint64_t{philox_multiplier_0} * c[0];
    std::uint64_t const p1 = std::uint64_t{philox_multiplier_1} * c[2];
    std::uint32_t const r0 = k0 + static_cast<std::uint32_t>(Round) * philox_weyl_0;
    std::uint32_t const r1 = k1 + static_cast<std::uint32_t>(Round) * philox_weyl_1;
    std::uint32_t next[4] = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ r0, static_cast<std::uint32_t>(p1),
                             static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ r1, static_cast<std::uint32_t>(p0)};
    philox_lane<Round + 1>(next, k0, k1);
    for (int i = 0; i < 4; ++i) c[i] = next[i];
  }
}

#if defined(__GNUC__) && !defined(__clang__) && defined(__AVX2__) && !defined(__CUDACC__)
#define HEDDLE_PHILOX_AVX2 1
/// Four groups at a time for g++, whose vectoriser spends twice as long on permutations around its widening product
/// (clang needs no help). Each word sits in the lower half of a 64-bit lane; the upper halves are never read.
/// Returns how many groups were written.
inline std::size_t philox_words_avx2(std::uint64_t first, philox_block const& counter, philox_key const& key,
                                     std::size_t groups, std::uint32_t* out) {
  typedef std::uint64_t wide __attribute__((vector_size(32)));
  typedef int halves __attribute__((vector_size(32)));
  auto const product = [](wide a, wide b) {
    return reinterpret_cast<wide>(__builtin_ia32_pmuludq256(reinterpret_cast<halves>(a), reinterpret_cast<halves>(b)));
  };
  wide const m0 = wide{} + philox_multiplier_0;
  wide const m1 = wide{} + philox_multiplier_1;
  std::size_t g = 0;
  for (; g + 4 <= groups; g += 4) {
    wide c0 = wide{0, 1, 2, 3} + (first + g);
    wide c1 = c0 >> 32;
    wide c2 = wide{} + counter.word[2];
    wide c3 = wide{} + counter.word[3];
    std::uint32_t k0 = key.word[0], k1 = key.word[1];
    for (int round = 0; round < philox_rounds; ++round) {
      wide const p0 = product(c0, m0);
      wide const p1 = product(c2, m1);
      c0 = (p1 >> 32) ^ c1 ^ std::uint64_t{k0};
      c1 = p1;
      c2 = (p0 >> 32) ^ c3 ^ std::uint64_t{k1};
      c3 = p0;
      k0 += philox_weyl_0;
      k1 += philox_weyl_1;
    }
    wide const a = (c0 & 0xFFFFFFFFu) | (c1 << 32);
    wide const b = (c2 & 0xFFFFFFFFu) | (c3 << 32);
    wide const front = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    wide const back = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    std::memcpy(out + 4 * g, &front, sizeof front);
    std::memcpy(out + 4 * g + 8, &back, sizeof back);
  }
  return g;
}
#endif

/// Writes the words of the elements 4·group .. 4·(group + groups) - 1, in order of the elements.
inline void philox_words(random_stream const& stream, std::uint64_t group, std::size_t groups, std::uint32_t draw,
                         std::uint32_t* out) {
  philox_block const first = stream.counter(group, draw);
  philox_key const key = stream.key();
  std::uint64_t const b = (std::uint64_t{first.word[1]} << 32) | first.word[0];
  std::size_t g = 0;
#if defined(HEDDLE_PHILOX_AVX2)
  g = philox_words_avx2(b, first, key, groups, out);
#endif
  for (; g < groups; ++g) {
    std::uint64_t const counter = b + g;
    std::uint32_t c[4] = {static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), first.word[2],
                          first.word[3]};
    philox_lane<0>(c, key.word[0], key.word[1]);
    out[4 * g] = c[0];
    out[4 * g + 1] = c[1];
    out[4 * g + 2] = c[2];
    out[4 * g + 3] = c[3];
  }
}

}  // namespace heddle::host::detail
