// SPDX-License-Identifier: Apache-2.0
// The backend's primitives against the host's: attention, positions, random numbers, optimizers.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <heddle/tensor/index_map.hpp>
#include <heddle/tensor/random_key.hpp>
#include <string>
#include <type_traits>

#include "both_backends.hpp"
#include "primitives_of_sequences.hpp"

using namespace heddle;
using namespace heddle::emulation;

TEST_CASE("attention and rotary positions are the host's") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    attended<1, 1, 1, 1, 2, B>(out, offset);
    attended<2, 19, 2, 3, 6, B>(out, offset);
    rotated<2, 5, 3, 2, 6, B>(out, offset);
    rotated<1, 3, 1, 1, 8, B>(out, offset);
    return out;
  });
}
TEST_CASE("positions of no sequence, and of empty ones, are nothing") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    if constexpr (std::is_same_v<T, float>) {
      rotated<0, 5, 3, 2, 6, B>(out, offset);
      rotated<2, 0, 3, 2, 6, B>(out, offset);
    }
    return out;
  });
}
TEST_CASE("random numbers are the host's to the bit") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    drawn<B>(out, offset);
    return out;
  });
}
TEST_CASE("optimizers, and sums over whole arrays, are the host's") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    optimized<B>(out, offset);
    optimized_together<B>(out, offset);
    return out;
  });
}
TEST_CASE("what the host refuses the device does") {
  emulation::session const here;
  index_map const map = maps[0];
  CHECK(emulation::has(
      emulation::failure_of([&] { cuda_backend::dropout<float>(nullptr, nullptr, nullptr, map, random_key{}, 1.0); }),
      "in [0, 1)"));
  std::int32_t const id = 5;
  CHECK(emulation::has(emulation::failure_of([&] { cuda_backend::check_tokens(&id, 1, 5); }), "token 5 at position 0"));
  CHECK(emulation::has(emulation::failure_of([&] { cuda_backend::check_targets(&id, 1, 5, -100); }), "target 5"));
}
