// SPDX-License-Identifier: Apache-2.0
// Products with cuBLASLt's epilogues against the host's primitives one after the other; and that they are used, where
// they can be.
#include <doctest/doctest.h>

#include <array>
#include <cstddef>
#include <heddle/nn/product_concepts.hpp>
#include <type_traits>
#include <vector>

#include "both_backends.hpp"
#include "cublaslt/handles.hpp"
#include "primitives.hpp"

namespace fused_products_cpp {

using namespace heddle;
using namespace heddle::emulation;

/// The operation where the backend has it, and its parts elsewhere.
template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B, class Backend, class T>
void biased(T const* a, T const* b, T const* row, T const* base, T* c, T* scratch) {
  if constexpr (heddle::detail::AddsRowToProduct<Backend, T>) {
    Backend::template product_biased<M, N, K, A, B>(a, b, row, base, c, scratch);
  } else {
    base == nullptr ? Backend::template biased_sum<M, N>(row, c) : Backend::template biased_sum<M, N>(row, c, base);
    Backend::template product_accumulate<M, N, K, A, B>(a, b, c, scratch);
  }
}
template <std::size_t M, std::size_t N, std::size_t K, class Backend, class T>
void summed(outcome<T>& out, std::size_t offset) {
  using A = wide<T>;
  array_of<Backend, T> const a(values<T>(K * M, 1), offset), b(values<T>(K * N, 2), offset);
  array_of<Backend, T> c(values<T>(M * N, 3), offset), sums(values<T>(M, 4), offset),
      scratch(Backend::template product_scratch<M, N, K>(), offset);
  array_of<Backend, A> const room(Backend::template bias_gradient_scratch<K, M>());
  if constexpr (heddle::detail::SumsWithProduct<Backend, T>) {
    Backend::template product_summed<M, N, K>(a.read(), b.read(), c.data(), sums.data(), scratch.data(), room.data());
  } else {
    Backend::clear(sums.data(), M);
    Backend::template bias_gradient<K, M>(a.read(), sums.data(), room.data());
    Backend::template product<M, N, K, true, false>(a.read(), b.read(), c.data(), scratch.data());
  }
  out.leave("weight gradient", c, K + 4);
  out.leave("bias gradient", sums, K + 8);
}
template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B, class Backend, class T>
void fused(outcome<T>& out, std::size_t offset) {
  array_of<Backend, T> const a(values<T>(M * K, 1), offset), b(values<T>(K * N, 2), offset),
      row(values<T>(N, 3, 4), offset), base(values<T>(M * N, 4, 4), offset);
  array_of<Backend, T> c(M * N, offset), onto(M * N, offset), where_it_is(values<T>(M * N, 5), offset),
      scratch(Backend::template product_scratch<M, N, K>(), offset);
  T const* const no_base = nullptr;
  biased<M, N, K, A, B, Backend>(a.read(), b.read(), row.read(), no_base, c.data(), scratch.data());
  biased<M, N, K, A, B, Backend>(a.read(), b.read(), row.read(), base.read(), onto.data(), scratch.data());
  biased<M, N, K, A, B, Backend>(a.read(), b.read(), row.read(), where_it_is.read(), where_it_is.data(),
                                 scratch.data());
  out.leave("product + row", c, K + 4);
  // In parts row + base is rounded.
  out.leave("product + row + base", onto, K + 4, 1);
  out.leave("product + row + c", where_it_is, K + 4, 1);
}
template <class Backend, class T>
outcome<T> all_fused(Backend, T, std::size_t offset) {
  outcome<T> out;
  fused<5, 7, 33, false, true, Backend>(out, offset);
  fused<8, 16, 40, true, false, Backend>(out, offset);
  fused<3, 4, 0, false, true, Backend>(out, offset);
  fused<0, 4, 3, false, true, Backend>(out, offset);
  fused<1, 9, 70, true, true, Backend>(out, offset);
  summed<5, 7, 33, Backend>(out, offset);
  summed<16, 3, 70, Backend>(out, offset);
  summed<3, 4, 0, Backend>(out, offset);
  summed<4, 0, 3, Backend>(out, offset);
  return out;
}
/// Of those, calls that multiply something: with a row, and with sums.
inline constexpr std::size_t with_row = 9, with_sums = 2;

}  // namespace fused_products_cpp

using namespace fused_products_cpp;

static_assert(heddle::detail::AddsRowToProduct<cuda_backend, __nv_bfloat16> &&
              heddle::detail::AddsRowToProduct<cuda_backend, double> &&
              heddle::detail::AddsRowToProduct<cuda_backend::tfloat32_products, float> &&
              !heddle::detail::AddsRowToProduct<host_backend, float>);

TEST_CASE("fused products are the host's products, biases and their gradients") {
  on_both_backends([](auto backend, auto number, std::size_t offset) { return all_fused(backend, number, offset); });
}
TEST_CASE("narrow fused products are the host's, rounded once") {
  with_narrow_numbers([](auto backend, auto number, std::size_t offset) { return all_fused(backend, number, offset); });
}
TEST_CASE("fused products in tf32 round their operands as the host's") {
  on_every_device([] {
    for (std::size_t const offset : {0U, 1U}) {
      auto const device = all_fused(cuda_backend::tfloat32_products{}, float{}, offset);
      check_alike(device, all_fused(host_backend::tfloat32_products{}, float{}, offset));
      CHECK(device.arrays[0].values != all_fused(cuda_backend{}, float{}, offset).arrays[0].values);
    }
  });
}
TEST_CASE("they are epilogues where cuBLASLt has them: not of doubles, nor beside a multiple of 16 bytes") {
  session const here;
  cuda::execution one(0);
  cuda::execution_scope const scope(one);
  auto const calls = [&](auto backend, auto number, std::size_t offset) {
    auto const before = blas_calls_now().products;
    all_fused(backend, number, offset);
    auto now = blas_calls_now().products;
    for (auto const& [kind, n] : before) now[kind] -= n;
    return std::array{now[CUBLASLT_EPILOGUE_BIAS], now[CUBLASLT_EPILOGUE_BGRADB]};
  };
  constexpr std::array all{with_row, with_sums};
  constexpr std::array<std::size_t, 2> none{};
  for (int turn = 0; turn < 2; ++turn) {
    CHECK(calls(cuda_backend{}, float{}, 0) == all);
    CHECK(calls(cuda_backend{}, __nv_bfloat16{}, 0) == all);
    CHECK(calls(cuda_backend{}, __half{}, 0) == all);
    CHECK(calls(cuda_backend::tfloat32_products{}, float{}, 0) == all);
    CHECK(calls(cuda_backend{}, float{}, 1) == none);
    CHECK(calls(cuda_backend{}, double{}, 0) == none);
  }
}
TEST_CASE("that there is no product with an epilogue is asked for once") {
  session const here;
  cuda::execution one(0);
  cuda::execution_scope const scope(one);
  array_of<cuda_backend, double> const a(std::vector<double>(16, 1)), row(std::vector<double>(4, 2)), c(16);
  std::size_t const before = blas_calls_now().asked;
  for (int turn = 0; turn < 3; ++turn)
    cuda_backend::product_biased<4, 4, 4, false, true, double>(a.read(), a.read(), row.read(), nullptr, c.data(),
                                                               nullptr);
  CHECK(blas_calls_now().asked - before == 2);  // with it, and without
  CHECK(one.products().size() == 2);
  CHECK(c.values() == std::vector<double>(16, 6));
}
