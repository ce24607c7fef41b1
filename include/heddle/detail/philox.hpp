// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include <heddle/detail/host_device.hpp>

namespace heddle::detail {

/// Counter, or output, of Philox4x32: four 32-bit words.
struct philox_block {
  std::uint32_t word[4];
  friend constexpr bool operator==(philox_block const&, philox_block const&) = default;
};

/// Key of Philox4x32: two 32-bit words.
struct philox_key {
  std::uint32_t word[2];
  friend constexpr bool operator==(philox_key const&, philox_key const&) = default;
};

inline constexpr std::uint32_t philox_multiplier_0 = 0xD2511F53u;
inline constexpr std::uint32_t philox_multiplier_1 = 0xCD9E8D57u;
inline constexpr std::uint32_t philox_weyl_0 = 0x9E3779B9u;  // golden ratio
inline constexpr std::uint32_t philox_weyl_1 = 0xBB67AE85u;  // sqrt(3) - 1
inline constexpr int philox_rounds = 10;

/// Philox4x32-10, a bijection of the counter for each key: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
/// easy as 1, 2, 3", SC'11, section 3.3 and table 2. Passes BigCrush; no state, so any element can be drawn by any
/// rank.
HEDDLE_HOST_DEVICE constexpr philox_block philox4x32(philox_block c, philox_key k) {
  for (int round = 0; round < philox_rounds; ++round) {
    std::uint64_t const p0 = std::uint64_t{philox_multiplier_0} * c.word[0];
    std::uint64_t const p1 = std::uint64_t{philox_multiplier_1} * c.word[2];
    c = {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ k.word[0], static_cast<std::uint32_t>(p1),
          static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ k.word[1], static_cast<std::uint32_t>(p0)}};
    k = {{k.word[0] + philox_weyl_0, k.word[1] + philox_weyl_1}};
  }
  return c;
}

}  // namespace heddle::detail
