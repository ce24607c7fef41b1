// SPDX-License-Identifier: Apache-2.0
// A step allocates nothing: neither our code nor Eigen's packing of products.
#include <heddle/backend/host.hpp>

#include "../support/count_allocations.hpp"
#include "checks.hpp"

namespace {

using heddle::activation_kind;
using heddle::testing::allocations_of;
using host = heddle::host_backend;

/// Forward and backward of one linear layer, as a step calls them.
template <std::size_t M, std::size_t N, std::size_t K, class T>
void linear(T const* a, T* b, T* c) {
  host::product<M, N, K, false, true>(a, b, c);
  host::product_accumulate<M, K, N, false, false>(c, b, b + N * K);
  host::product_accumulate<N, K, M, true, false>(c, a, b);
}

}  // namespace

TEST_CASE_TEMPLATE("host backend: after the first call nothing is allocated", T, float, double) {
  constexpr std::size_t rows = 40, width = 300, vocabulary = 4999;
  std::vector<T> a(rows * vocabulary, T(0.5)), b(width * vocabulary + rows * vocabulary, T(0.25)),
      c(rows * vocabulary, T(1)), statistics(4 * rows);
  std::vector<std::int32_t> tokens(rows, 3);
  T *const x = a.data(), *const w = b.data(), *const y = c.data(), *const s = statistics.data();
  auto const step = [&] {
    linear<rows, vocabulary, width>(x, w, y);  // packed operands of 4 to 8 MB: Eigen would allocate them
    linear<rows, width, width>(x, w, y);
    linear<rows, 3, 5>(x, w, y);
    host::add<width>(x, w, y);
    host::biased_sum<rows, width>(w, y, y);
    host::bias_gradient<rows, width>(y, w);
    host::activation<activation_kind::gelu_tanh, width>(x, y);
    host::activation_backward<activation_kind::gelu_erf, width>(x, y, y);
    host::gated<activation_kind::silu, rows, width>(x, y);
    host::gated_backward<activation_kind::silu, rows, width>(x, y, w);
    host::layer_norm<rows, width>(x, w, w + width, T(1e-5), y, s, s + rows);
    host::layer_norm_backward<rows, width>(x, w, s, s + rows, y, x, y, w, w + width);
    host::rms_norm<rows, width>(x, w, T(1e-5), y, s);
    host::rms_norm_backward<rows, width>(x, w, s, y, x, y, w);
    host::check_tokens(tokens.data(), rows, vocabulary);
    host::embedding<rows, vocabulary, width>(tokens.data(), w, 0, x);
    host::embedding_backward<rows, vocabulary, width>(tokens.data(), x, 0, w);
    host::check_targets(tokens.data(), rows, vocabulary, -100);
    host::cross_entropy_max<rows, vocabulary>(y, vocabulary, s);
    host::cross_entropy_sum<rows, vocabulary>(y, vocabulary, 0, tokens.data(), s, s + rows, s + 2 * rows);
    host::cross_entropy_loss<rows>(tokens.data(), -100, s, s + rows, s + 2 * rows, s + 3 * rows, y);
    host::cross_entropy_backward<rows, vocabulary>(y, vocabulary, 0, tokens.data(), -100, s + 3 * rows, s, y);
    host::adamw(x, y, y, y, width, heddle::adamw_coefficients{.learning_rate = host::sum_of_squares(x, width)});
  };
  CHECK(allocations_of(step) <= 4);  // the packing buffer grows to its size, once for each larger product
  CHECK(allocations_of(step) == 0);
}

TEST_CASE("the counter counts: a plain Eigen product of that size does allocate") {
  Eigen::MatrixXf const a = Eigen::MatrixXf::Ones(300, 300), b = a;
  Eigen::MatrixXf c(300, 300);
  CHECK(allocations_of([&] { c.noalias() = a * b; }) > 0);
  CHECK(allocations_of([] { ::operator delete(::operator new(8)); }) == 1);
}
