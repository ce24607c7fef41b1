// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/pointwise.hpp>

#include <limits>

#include "checks.hpp"

namespace pointwise_test {

namespace {

using heddle::activation_kind;
using heddle::host::pointwise;
namespace detail = heddle::host::detail;

template <class T, class F>
std::vector<T> through_lanes(std::vector<T> const& x, F f) {
  std::vector<T> out(x.size());
  detail::for_each_group<T>(x.size(), [&](std::size_t i, auto count) {
    detail::store<T>(out.data() + i, f(detail::load(x.data() + i, count)), count);
  });
  return out;
}

double exact(activation_kind kind, double x) {
  switch (kind) {
    case activation_kind::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case activation_kind::gelu_erf:
      return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
    case activation_kind::silu:
      return x / (1 + std::exp(-x));
    case activation_kind::relu:
      return x > 0 ? x : 0;
  }
  return 0;
}

template <activation_kind Kind, std::size_t N>
void check_activation() {
  CAPTURE(static_cast<int>(Kind));
  CAPTURE(N);
  auto x = checks::values(N, 1, -6, 6);
  auto const dy = checks::values(N, 2);
  std::vector<double> y(N), dx(N), expected(N);
  for (std::size_t i = 0; i < N; ++i) expected[i] = exact(Kind, x[i]);
  pointwise::activation<Kind, N>(x.data(), y.data());
  CHECK(checks::distance(y, expected) < 1e-15 * 8);  // a few roundings
  pointwise::activation_backward<Kind, N>(x.data(), dy.data(), dx.data());
  checks::gradient(x, dx, [&] {
    pointwise::activation<Kind, N>(x.data(), y.data());
    return checks::dot(y, dy);
  });

  auto const x32 = checks::narrowed(x), dy32 = checks::narrowed(dy);
  std::vector<float> y32(N), dx32(N);
  pointwise::activation<Kind, N>(x32.data(), y32.data());
  CHECK(checks::distance(y32, expected) < 1e-6);  // some roundings of 6e-8, at |x| <= 6
  pointwise::activation_backward<Kind, N>(x32.data(), dy32.data(), dx32.data());
  CHECK(checks::distance(dx32, dx) < 2e-6);

  // In place: the same bits.
  auto in_place = x32;
  pointwise::activation<Kind, N>(in_place.data(), in_place.data());
  CHECK(in_place == y32);
  in_place = dy32;
  pointwise::activation_backward<Kind, N>(x32.data(), in_place.data(), in_place.data());
  CHECK(in_place == dx32);
}

template <activation_kind Kind, std::size_t Width>
void check_gated() {
  constexpr std::size_t rows = 3;
  auto x = checks::values(rows * 2 * Width, 1, -4, 4);
  auto const dy = checks::values(rows * Width, 2);
  std::vector<double> y(rows * Width), dx(x.size()), expected(rows * Width);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < Width; ++j)
      expected[i * Width + j] = exact(Kind, x[2 * i * Width + j]) * x[(2 * i + 1) * Width + j];
  pointwise::gated<Kind, rows, Width>(x.data(), y.data());
  CHECK(checks::distance(y, expected) < 1e-14);
  pointwise::gated_backward<Kind, rows, Width>(x.data(), dy.data(), dx.data());
  checks::gradient(x, dx, [&] {
    pointwise::gated<Kind, rows, Width>(x.data(), y.data());
    return checks::dot(y, dy);
  });
  auto in_place = x;
  pointwise::gated_backward<Kind, rows, Width>(in_place.data(), dy.data(), in_place.data());
  CHECK(in_place == dx);
}

}  // namespace

TEST_CASE("exponential: two units in the last place over the whole range") {
  auto const x = checks::values(20011, 1, -707, 709);
  auto const y = through_lanes(x, detail::exponential<double>);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    long double const expected = std::exp(static_cast<long double>(x[i]));
    worst = std::fmax(worst, static_cast<double>(std::fabs(static_cast<long double>(y[i]) / expected - 1)));
  }
  CHECK(worst < 2 * 2.3e-16);

  auto const x32 = checks::narrowed(checks::values(20011, 1, -86.5, 88.7));
  auto const y32 = through_lanes(x32, detail::exponential<float>);
  worst = 0;
  for (std::size_t i = 0; i < x32.size(); ++i)
    worst = std::fmax(worst, std::fabs(static_cast<double>(y32[i]) / std::exp(static_cast<double>(x32[i])) - 1));
  CHECK(worst < 2 * 1.2e-7);
}

TEST_CASE_TEMPLATE("exponential: ends of the range", T, float, double) {
  T const infinity = std::numeric_limits<T>::infinity();
  auto const y = through_lanes<T>({T(0), -infinity, infinity, T(1000), T(-1000), std::numeric_limits<T>::quiet_NaN()},
                                  detail::exponential<T>);
  CHECK(y[0] == 1);
  CHECK(y[1] == 0);
  CHECK(y[2] == infinity);
  CHECK(y[3] == infinity);
  CHECK(y[4] == 0);
  CHECK(std::isnan(y[5]));
}

TEST_CASE("normal distribution: relative error in float, lower tail included") {
  auto const x = checks::narrowed(checks::values(5003, 1, -12, 6));
  auto const y =
      through_lanes(x, [](detail::lanes<float> const& v) { return detail::standard_normal<float>(v).distribution; });
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const expected = 0.5 * std::erfc(-static_cast<double>(x[i]) * std::sqrt(0.5));
    // The rounding of -x²/2, half an ulp or 6e-8 of it, is that much of e^(-x²/2); the exponential, the polynomial and
    // the products have some ulps of 1.2e-7.
    double const bound = 5e-7 + 6e-8 * static_cast<double>(x[i] * x[i]);
    CHECK(std::fabs(static_cast<double>(y[i]) - expected) <= bound * expected);
  }
}

TEST_CASE("sum, scale, fill, copy") {
  checks::for_odd_sizes([](auto n) {
    constexpr std::size_t N = decltype(n)::value;
    auto const x = checks::values(N, 1), y = checks::values(N, 2);
    std::vector<double> out(N), expected(N);
    for (std::size_t i = 0; i < N; ++i) expected[i] = x[i] + y[i];
    pointwise::add<N>(x.data(), y.data(), out.data());
    CHECK(out == expected);
    out = y;
    pointwise::add_to<N>(x.data(), out.data());
    CHECK(out == expected);
    pointwise::scale<N>(0.5, out.data());
    for (double& value : expected) value *= 0.5;
    CHECK(out == expected);
    pointwise::fill<N>(3.0, out.data());
    CHECK(out == std::vector<double>(N, 3.0));
    pointwise::copy<N>(x.data(), out.data());
    CHECK(out == x);
  });
}

TEST_CASE("bias: added to each row; its gradient sums and accumulates") {
  checks::for_odd_sizes([](auto n) {
    constexpr std::size_t N = decltype(n)::value, rows = 5;
    auto const bias = checks::values(N, 1), x = checks::values(rows * N, 2), before = checks::values(N, 3);
    auto y = x, expected = x, sums = before;
    for (std::size_t i = 0; i < rows * N; ++i) expected[i] += bias[i % N];
    pointwise::biased_sum<rows, N>(bias.data(), y.data(), y.data());
    CHECK(y == expected);
    // Onto a second sum, in its place; and alone, which fills.
    auto const base = checks::values(rows * N, 4);
    for (std::size_t i = 0; i < rows * N; ++i) expected[i] = bias[i % N] + base[i] + x[i];
    auto onto = base;
    pointwise::biased_sum<rows, N>(bias.data(), onto.data(), onto.data(), x.data());
    CHECK(onto == expected);
    pointwise::biased_sum<rows, N>(bias.data(), y.data());
    for (std::size_t i = 0; i < rows * N; ++i) expected[i] = bias[i % N];
    CHECK(y == expected);
    for (std::size_t i = 0; i < rows * N; ++i) sums[i % N] += x[i];  // rows in order: the same bits
    auto db = before;
    pointwise::bias_gradient<rows, N>(x.data(), db.data());
    CHECK(db == sums);
  });
}

TEST_CASE("activations: values, gradients, precisions, in place") {
  checks::for_odd_sizes([](auto n) {
    constexpr std::size_t N = decltype(n)::value;
    check_activation<activation_kind::gelu_tanh, N>();
    check_activation<activation_kind::gelu_erf, N>();
    check_activation<activation_kind::silu, N>();
    check_activation<activation_kind::relu, N>();
  });
}

TEST_CASE("activations: published values") {
  // torch.nn.functional.gelu(1.), gelu(1., approximate='tanh'), silu(1.), relu(1.) in float64
  double const x = 1;
  double y = 0;
  pointwise::activation<activation_kind::gelu_erf, 1>(&x, &y);
  CHECK(y == doctest::Approx(0.8413447460685429).epsilon(1e-15));
  pointwise::activation<activation_kind::gelu_tanh, 1>(&x, &y);
  CHECK(y == doctest::Approx(0.8411919906082768).epsilon(1e-15));
  pointwise::activation<activation_kind::silu, 1>(&x, &y);
  CHECK(y == doctest::Approx(0.7310585786300049).epsilon(1e-15));
  pointwise::activation<activation_kind::relu, 1>(&x, &y);
  CHECK(y == 1);
}

TEST_CASE_TEMPLATE("gelu: where the square overflows the slope is 1 and 0", T, float, double) {
  T const far = std::sqrt(std::numeric_limits<T>::max()) * 4;
  T const x[] = {far, -far, T(1100), T(-1100)}, dy[] = {1, 1, 1, 1};
  T y[4], dx[4];
  for (bool by_tanh : {true, false}) {
    if (by_tanh) {
      pointwise::activation<activation_kind::gelu_tanh, 4>(x, y);
      pointwise::activation_backward<activation_kind::gelu_tanh, 4>(x, dy, dx);
    } else {
      pointwise::activation<activation_kind::gelu_erf, 4>(x, y);
      pointwise::activation_backward<activation_kind::gelu_erf, 4>(x, dy, dx);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(y[i] == (x[i] > 0 ? x[i] : 0));
      CHECK(dx[i] == (x[i] > 0 ? 1 : 0));
    }
  }
}

TEST_CASE_TEMPLATE("activations: far out they are x and 0; NaN stays NaN", T, float, double) {
  T const x[] = {T(500), T(-500), std::numeric_limits<T>::quiet_NaN()};
  T y[3], dx[3];
  T const dy[] = {1, 1, 1};
  auto const check = [&] {
    CHECK(y[0] == 500);
    CHECK(y[1] == 0);
    CHECK(std::isnan(y[2]));
    CHECK(dx[0] == 1);
    CHECK(dx[1] == 0);
  };
  pointwise::activation<activation_kind::gelu_tanh, 3>(x, y);
  pointwise::activation_backward<activation_kind::gelu_tanh, 3>(x, dy, dx);
  check();
  pointwise::activation<activation_kind::gelu_erf, 3>(x, y);
  pointwise::activation_backward<activation_kind::gelu_erf, 3>(x, dy, dx);
  check();
  pointwise::activation<activation_kind::silu, 3>(x, y);
  pointwise::activation_backward<activation_kind::silu, 3>(x, dy, dx);
  y[1] = std::fabs(y[1]) < T(1e-35) ? 0 : y[1];  // -500·e^-500 is not 0 in double
  dx[1] = std::fabs(dx[1]) < T(1e-35) ? 0 : dx[1];
  check();
  pointwise::activation<activation_kind::relu, 3>(x, y);
  pointwise::activation_backward<activation_kind::relu, 3>(x, dy, dx);
  check();
}

TEST_CASE("gated units: values, gradients, in place") {
  checks::for_odd_sizes([](auto n) {
    constexpr std::size_t N = decltype(n)::value;
    check_gated<activation_kind::silu, N>();
    check_gated<activation_kind::gelu_tanh, N>();
  });
}

TEST_CASE("an element's value does not depend on where it stands") {
  auto const x = checks::narrowed(checks::values(65, 1));
  std::vector<float> all(65);
  pointwise::activation<activation_kind::gelu_tanh, 65>(x.data(), all.data());
  for (std::size_t i = 0; i < 65; ++i) {
    float one = 0;
    pointwise::activation<activation_kind::gelu_tanh, 1>(x.data() + i, &one);
    CHECK(one == all[i]);
  }
}

}  // namespace pointwise_test
