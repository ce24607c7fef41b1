// SPDX-License-Identifier: Apache-2.0
// The backend's primitives on numbers of 16 bits against the host's, which round at the same points: and products in
// tf32.
#include <doctest/doctest.h>

#include <cstddef>
#include <heddle/precision/element.hpp>
#include <type_traits>

#include "both_backends.hpp"
#include "primitives.hpp"

namespace narrow_primitives_cpp {

using namespace heddle;
using namespace heddle::emulation;

template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B, class Backend, class T>
void multiplied(outcome<T>& out, std::size_t offset) {
  array_of<Backend, T> const a(values<T>(M * K, 1), offset), b(values<T>(K * N, 2), offset);
  array_of<Backend, T> c(M * N, offset), sum(values<T>(M * N, 3, 4), offset),
      scratch(Backend::template product_scratch<M, N, K>(), offset);
  Backend::template product<M, N, K, A, B>(a.read(), b.read(), c.data(), scratch.data());
  Backend::template product_accumulate<M, N, K, A, B>(a.read(), b.read(), sum.data(), scratch.data());
  out.leave("product", c, K + 4);
  out.leave("product_accumulate", sum, K + 4);
}
template <class Backend, class T>
outcome<T> products(Backend, T, std::size_t offset) {
  outcome<T> out;
  multiplied<5, 7, 33, false, true, Backend>(out, offset);
  multiplied<8, 16, 40, true, false, Backend>(out, offset);
  multiplied<3, 4, 0, false, false, Backend>(out, offset);
  multiplied<1, 9, 70, true, true, Backend>(out, offset);
  return out;
}

}  // namespace narrow_primitives_cpp

using namespace narrow_primitives_cpp;

static_assert(std::is_same_v<element_on<cuda_backend, dtype::bfloat16>, __nv_bfloat16> &&
              std::is_same_v<element_on<cuda_backend, dtype::float16>, __half> &&
              std::is_same_v<element_on<cuda_backend, dtype::tfloat32>, float> &&
              std::is_same_v<element_on<cuda_backend, dtype::float64>, double> &&
              element_name<__nv_bfloat16> == "bf16" && element_name<__half> == "fp16");

TEST_CASE("narrow products are summed in float and rounded once, as the host's") {
  with_narrow_numbers([](auto backend, auto number, std::size_t offset) { return products(backend, number, offset); });
}
TEST_CASE("products in tf32 round their operands as the host's") {
  on_every_device([] {
    for (std::size_t const offset : {0U, 1U}) {
      auto const device = products(cuda_backend::tfloat32_products{}, float{}, offset);
      check_alike(device, products(host_backend::tfloat32_products{}, float{}, offset));
      // They are not fp32's.
      CHECK(device.arrays[0].values != products(cuda_backend{}, float{}, offset).arrays[0].values);
    }
  });
}
TEST_CASE("element by element, narrow numbers are the host's") {
  with_narrow_numbers([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    elements<1, B>(out, offset);
    elements<1030, B>(out, offset);
    activations<activation_kind::gelu_tanh, 3, 21, B>(out, offset);
    activations<activation_kind::silu, 2, 40, B>(out, offset);
    biases<20, 36, B>(out, offset);
    index_map const map{.rank = 2, .extent = {5, 6}, .valid = {4, 5}, .stride = {5, 1}, .origin = 2};
    array_of<B, T> x(values<T>(30, 1), offset);
    B::fill_real(T(3.0F), x.data(), map);
    out.leave("fill_real", x);
    return out;
  });
}
TEST_CASE("by rows, narrow numbers are the host's") {
  with_narrow_numbers([]<class B, class T>(B, T, std::size_t offset) {
    outcome<T> out;
    norms<19, 37, B>(out, offset);
    norms<3, 64, B>(out, offset);
    embedded<45, 9, 33, B>(out, offset);
    losses<11, 70, B>(out, offset);
    return out;
  });
}
