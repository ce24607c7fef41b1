// SPDX-License-Identifier: Apache-2.0
// Attention, rotary positions, random numbers and optimizers on numbers of 16 bits against the host's.
#include <doctest/doctest.h>

#include <cstddef>

#include "both_backends.hpp"
#include "primitives_of_sequences.hpp"

using namespace heddle;
using namespace heddle::emulation;

TEST_CASE("attention and rotary positions of narrow numbers are the host's") {
  with_narrow_numbers([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    attended<1, 1, 1, 1, 2, B>(out, offset);
    attended<2, 19, 2, 3, 6, B>(out, offset);
    attended<1, 9, 1, 1, 16, B>(out, offset);
    rotated<2, 5, 3, 2, 6, B>(out, offset);
    rotated<1, 3, 1, 1, 16, B>(out, offset);
    return out;
  });
}
TEST_CASE("narrow random numbers are the host's to the bit") {
  with_narrow_numbers([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    drawn<B>(out, offset);
    return out;
  });
}
TEST_CASE("optimizers take narrow gradients, and sums over whole arrays are the host's") {
  with_narrow_numbers([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    optimized<B>(out, offset);
    optimized_together<B>(out, offset);
    return out;
  });
}
