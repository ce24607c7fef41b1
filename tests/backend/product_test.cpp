// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/product.hpp>

#include <functional>
#include <thread>

#include "checks.hpp"

namespace product_test {

namespace {

using heddle::host::products;

struct shape {
  std::size_t m, n, k;
};

std::vector<double> expected(shape s, bool ta, bool tb, std::vector<double> const& a, std::vector<double> const& b,
                             std::vector<double> c) {
  for (std::size_t i = 0; i < s.m; ++i)
    for (std::size_t j = 0; j < s.n; ++j)
      for (std::size_t l = 0; l < s.k; ++l)
        c[i * s.n + j] += a[ta ? l * s.m + i : i * s.k + l] * b[tb ? j * s.k + l : l * s.n + j];
  return c;
}

template <std::size_t M, std::size_t N, std::size_t K, bool Ta, bool Tb>
void check_layout() {
  CAPTURE(M);
  CAPTURE(N);
  CAPTURE(K);
  CAPTURE(Ta);
  CAPTURE(Tb);
  auto const a = checks::values(M * K, 1), b = checks::values(K * N, 2), c = checks::values(M * N, 3);
  std::vector<double> const zero(M * N);
  auto const fresh = expected({M, N, K}, Ta, Tb, a, b, zero), added = expected({M, N, K}, Ta, Tb, a, b, c);

  auto out = c;
  products::product<M, N, K, Ta, Tb>(a.data(), b.data(), out.data());
  CHECK(checks::distance(out, fresh) < 1e-12);  // K <= 1000 roundings of 1e-16 of partial sums of some dozens
  out = c;
  products::product_accumulate<M, N, K, Ta, Tb>(a.data(), b.data(), out.data());
  CHECK(checks::distance(out, added) < 1e-12);

  // In float: K roundings of 6e-8 of partial sums of some dozens, of random sign.
  auto const a32 = checks::narrowed(a), b32 = checks::narrowed(b);
  auto out32 = checks::narrowed(c);
  products::product<M, N, K, Ta, Tb>(a32.data(), b32.data(), out32.data());
  CHECK(checks::distance(out32, fresh) < 2e-6 * std::sqrt(static_cast<double>(K + 1)));
}

template <std::size_t M, std::size_t N, std::size_t K>
void check_shape() {
  check_layout<M, N, K, false, false>();
  check_layout<M, N, K, false, true>();
  check_layout<M, N, K, true, false>();
  check_layout<M, N, K, true, true>();
}

}  // namespace

TEST_CASE("product: every layout, odd sizes") {
  check_shape<1, 1, 1>();
  check_shape<1, 17, 65>();
  check_shape<3, 1, 17>();
  check_shape<17, 3, 1>();
  check_shape<17, 65, 3>();
  check_shape<65, 17, 17>();
  check_shape<65, 65, 65>();
}

TEST_CASE("product: more columns than a panel, a depth that is blocked") {
  check_shape<3, 4097, 5>();
  check_shape<33, 49, 1000>();
}

TEST_CASE("product: an empty sum is zero, and adds nothing") {
  std::vector<double> c(6, 7.0);
  products::product_accumulate<2, 3, 0, false, false>(c.data(), c.data(), c.data());
  CHECK(c == std::vector<double>(6, 7.0));
  products::product<2, 3, 0, false, false>(c.data(), c.data(), c.data());
  CHECK(c == std::vector<double>(6, 0.0));
}

TEST_CASE("product: neighbours of c are untouched") {
  auto const a = checks::values(17 * 5, 1), b = checks::values(5 * 19, 2);
  std::vector<double> c(17 * 19 + 32, 7.0);
  products::product<17, 19, 5, false, false>(a.data(), b.data(), c.data() + 16);
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(c[i] == 7.0);
    CHECK(c[c.size() - 1 - i] == 7.0);
  }
}

TEST_CASE("product: ranks are threads: two at once give the bits of one") {
  auto const a = checks::values(65 * 300, 1), b = checks::values(300 * 129, 2);
  std::vector<double> alone(65 * 129), first(65 * 129), second(65 * 129);
  auto const multiply = [&](std::vector<double>& c) {
    for (int i = 0; i < 20; ++i) products::product<65, 129, 300, false, false>(a.data(), b.data(), c.data());
  };
  multiply(alone);
  std::thread one(multiply, std::ref(first)), two(multiply, std::ref(second));
  one.join();
  two.join();
  CHECK(first == alone);
  CHECK(second == alone);
}

}  // namespace product_test
