// SPDX-License-Identifier: Apache-2.0
// The backend's primitives against the host's: element by element, and by rows.
#include <doctest/doctest.h>

#include <cstddef>
#include <heddle/tensor/index_map.hpp>
#include <type_traits>

#include "both_backends.hpp"
#include "primitives.hpp"

using namespace heddle;
using namespace heddle::emulation;

TEST_CASE("element by element, the device does what the host does") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    elements<0, B>(out, offset);
    elements<1, B>(out, offset);
    elements<1030, B>(out, offset);
    activations<activation_kind::gelu_tanh, 3, 5, B>(out, offset);
    activations<activation_kind::silu, 2, 40, B>(out, offset);
    activations<activation_kind::gelu_erf, 1, 7, B>(out, offset);
    activations<activation_kind::relu, 1, 8, B>(out, offset);
    biases<1, 3, B>(out, offset);
    biases<20, 36, B>(out, offset);
    return out;
  });
}
TEST_CASE("by rows, the device does what the host does") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    norms<1, 1, B>(out, offset);
    norms<19, 37, B>(out, offset);
    embedded<1, 1, 3, B>(out, offset);
    embedded<45, 9, 33, B>(out, offset);
    losses<1, 3, B>(out, offset);
    losses<11, 70, B>(out, offset);
    return out;
  });
}
TEST_CASE("of no rows, the device does what the host does: nothing is launched, and nothing added to") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    if constexpr (std::is_same_v<T, float>) {
      activations<activation_kind::silu, 0, 5, B>(out, offset);
      biases<0, 3, B>(out, offset);
      norms<0, 5, B>(out, offset);
      embedded<0, 4, 3, B>(out, offset);
      losses<0, 7, B>(out, offset);
    }
    return out;
  });
}
TEST_CASE("real elements are filled, and padding stays") {
  on_both_backends([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    index_map const map{.rank = 2, .extent = {5, 6}, .valid = {4, 5}, .stride = {5, 1}, .origin = 2};
    array_of<B, T> x(values<T>(30, 1), offset);
    B::fill_real(T(3), x.data(), map);
    out.leave("fill_real", x);
    return out;
  });
}
