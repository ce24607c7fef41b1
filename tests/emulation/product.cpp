// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <heddle/backend/cuda/product.hpp>
#include <heddle/backend/host/product.hpp>
#include <string>
#include <vector>

#include "backend.hpp"
#include "values.hpp"

namespace product_cpp {

using namespace heddle;
using emulation::failure_of;
using emulation::has;
using emulation::on_device;

/// The host's product and the device's, from addresses that are `offset` elements off.
template <std::size_t M, std::size_t N, std::size_t K, bool A, bool B, class T>
void check_form(std::size_t offset) {
  using device = cuda::products;
  CAPTURE(M);
  CAPTURE(N);
  CAPTURE(K);
  CAPTURE(A);
  CAPTURE(B);
  CAPTURE(offset);
  std::vector<T> const a = emulation::values<T>(M * K + offset, 1), b = emulation::values<T>(K * N + offset, 2),
                       before = emulation::values<T>(M * N + offset, 3);
  std::vector<T> c = before, sum = before;
  host::products::product<M, N, K, A, B>(a.data() + offset, b.data() + offset, c.data() + offset);
  host::products::product_accumulate<M, N, K, A, B>(a.data() + offset, b.data() + offset, sum.data() + offset);
  on_device<T> const da(a), db(b), dc(before), dsum(before);
  on_device<T> const scratch(std::vector<T>(device::product_scratch<M, N, K>() + offset));
  for (int turn = 0; turn < 2; ++turn)  // the second has a plan
    device::product<M, N, K, A, B>(da.read() + offset, db.read() + offset, dc.data() + offset, scratch.data() + offset);
  device::product_accumulate<M, N, K, A, B>(da.read() + offset, db.read() + offset, dsum.data() + offset);
  double const within = static_cast<double>(K + 4);  // roundings, in another order
  emulation::check_near<T>(dc.values(), c, within);
  emulation::check_near<T>(dsum.values(), sum, within);
}
template <std::size_t M, std::size_t N, std::size_t K, class T>
void check_forms() {
  for (std::size_t const offset : {0U, 1U}) {
    check_form<M, N, K, false, false, T>(offset);
    check_form<M, N, K, false, true, T>(offset);
    check_form<M, N, K, true, false, T>(offset);
    check_form<M, N, K, true, true, T>(offset);
  }
}

}  // namespace product_cpp

using namespace product_cpp;

TEST_CASE("products are the host's, of every form, size and address") {
  emulation::on_every_device([] {
    check_forms<5, 7, 3, float>();
    check_forms<8, 4, 16, double>();
    check_forms<1, 1, 1, double>();
    check_form<3, 4, 0, false, true, float>(0);  // a sum of nothing
    check_form<0, 4, 2, false, false, float>(0);
  });
}
TEST_CASE("each shape is asked for once") {
  emulation::session const here;
  cuda::execution one(0);
  cuda::execution_scope const scope(one);
  on_device<float> const a(std::vector<float>(16, 1)), b(std::vector<float>(16, 1)), c(std::vector<float>(16));
  for (int turn = 0; turn < 3; ++turn) {
    cuda::products::product<4, 4, 4, false, false>(a.read(), b.read(), c.data());
    cuda::products::product_accumulate<4, 4, 4, false, false>(a.read(), b.read(), c.data());
  }
  CHECK(one.products().size() == 1);
  cuda::products::product<2, 4, 4, false, false>(a.read(), b.read(), c.data());
  CHECK(one.products().size() == 2);
}
TEST_CASE("products go to the stream in order, and a missing wait is found") {
  emulation::session const here({.mode = emulation::execution::delayed, .seed = 3});
  cuda::execution one(0);
  cuda::execution_scope const scope(one);
  on_device<float> const a(std::vector<float>(16, 1)), b(std::vector<float>(16, 1)), c(std::vector<float>(16));
  cuda::products::product<4, 4, 4, false, false>(a.read(), b.read(), c.data());
  CHECK(has(failure_of([&] {
              cuda::fill_zero<float>(one.communication(), {c.data(), 16});
              one.communication().synchronize();
            }),
            "of cuBLASLt on stream 1 writes"));
}
TEST_CASE("what cuBLASLt refuses is thrown, with the product and what to do") {
  emulation::session const here;
  cuda::execution one(0);
  cuda::execution_scope const scope(one);
  on_device<float> const a(std::vector<float>(16, 1)), c(std::vector<float>(16));
  std::string const text =
      failure_of([&] { cuda::products::product<4, 4, 4, false, false>(a.read(), c.read(), c.data()); });
  CHECK(has(text, "cublasLtMatmul of a product [4, 4] x [4, 4]"));
  CHECK(has(text, "CUBLAS_STATUS_INVALID_VALUE (7)"));
  CHECK(has(text, "stands where an operand does"));
  CHECK(has(text, "check the product's sizes"));
  // A workspace that is too small for what was promised would be used beyond its end.
  on_device<float> const b(std::vector<float>(16, 1)), room(std::vector<float>(16));
  CHECK(has(failure_of([&] {
              cuda::products::product<4, 4, 4, false, false>(a.read(), b.read(), c.data(), room.data());
              one.compute().synchronize();
            }),
            "of cuBLASLt on stream 1 uses"));
}
