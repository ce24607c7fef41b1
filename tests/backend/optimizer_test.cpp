// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/optimizer.hpp>

#include "checks.hpp"

namespace optimizer_test {

namespace {

using heddle::adamw_coefficients;
using heddle::host::optimizers;

adamw_coefficients at_step(int t, adamw_coefficients c = {.learning_rate = 1}) {
  c.bias_correction1 = 1 - std::pow(c.beta1, t);
  c.bias_correction2 = 1 - std::pow(c.beta2, t);
  return c;
}

}  // namespace

TEST_CASE_TEMPLATE("adamw: epsilon stands outside the root, after the bias correction (AD-1)", T, float, double) {
  T w = 0, m = 0, v = 0;
  T const g = T(1e-8);
  optimizers::adamw(&w, &g, &m, &v, 1, at_step(1));
  // Before the correction it would be 0.030653, inside the root 1e-4.
  CHECK(-w == doctest::Approx(0.5).epsilon(1e-6));
}

TEST_CASE_TEMPLATE("adamw: with a constant gradient every step is the learning rate (AD-3)", T, float, double) {
  T w = 0, m = 0, v = 0;
  T const g = 1;
  for (int t = 1; t <= 5; ++t) {
    T const before = w;
    optimizers::adamw(&w, &g, &m, &v, 1, at_step(t));
    CHECK(before - w == doctest::Approx(1.0).epsilon(1e-6));  // uncorrected: 3.162, 4.250, 4.950, 5.442, 5.797
  }
}

TEST_CASE("adamw: the decay is decoupled and scaled by the learning rate") {
  double w = 10, m = 0, v = 0;
  double const g = 0;
  optimizers::adamw(&w, &g, &m, &v, 1, at_step(1, {.learning_rate = 0.1, .weight_decay = 0.5}));
  CHECK(w == doctest::Approx(9.5).epsilon(1e-15));
  CHECK(m == 0);
  CHECK(v == 0);
}

TEST_CASE("adamw: against the formulas over ten steps, odd lengths, both precisions") {
  for (std::size_t n : {std::size_t{0}, std::size_t{1}, std::size_t{3}, std::size_t{17}, std::size_t{65}}) {
    CAPTURE(n);
    auto w = checks::values(n, 1);
    std::vector<double> m(n), v(n);
    auto expected_w = w, expected_m = m, expected_v = v;
    auto w32 = checks::narrowed(w), m32 = checks::narrowed(m), v32 = checks::narrowed(v);
    for (int t = 1; t <= 10; ++t) {
      auto const g = checks::values(n, 10 + static_cast<std::uint64_t>(t));
      auto const g32 = checks::narrowed(g);
      auto const c = at_step(t, {.learning_rate = 0.01, .beta2 = 0.95, .weight_decay = 0.1, .gradient_scale = 0.25});
      optimizers::adamw(w.data(), g.data(), m.data(), v.data(), n, c);
      optimizers::adamw(w32.data(), g32.data(), m32.data(), v32.data(), n, c);
      for (std::size_t i = 0; i < n; ++i) {
        double const gradient = 0.25 * g[i];
        expected_m[i] = 0.9 * expected_m[i] + 0.1 * gradient;
        expected_v[i] = 0.95 * expected_v[i] + 0.05 * gradient * gradient;
        double const m_hat = expected_m[i] / c.bias_correction1, v_hat = expected_v[i] / c.bias_correction2;
        expected_w[i] -= 0.01 * 0.1 * expected_w[i];
        expected_w[i] -= 0.01 * m_hat / (std::sqrt(v_hat) + 1e-8);
      }
    }
    CHECK(checks::distance(w, expected_w) < 1e-14);  // ten steps of some roundings
    CHECK(checks::distance(m, expected_m) < 1e-14);
    CHECK(checks::distance(v, expected_v) < 1e-14);
    CHECK(checks::distance(w32, expected_w) < 2e-6);
  }
}

TEST_CASE("adamw: an element's step does not depend on where it stands") {
  // A shard of ZeRO begins anywhere: it must give the bits of the whole.
  std::size_t const n = 65;
  auto const g = checks::narrowed(checks::values(n, 2));
  auto w = checks::narrowed(checks::values(n, 1)), parts = w;
  std::vector<float> m(n), v(n), part_m(n), part_v(n);
  optimizers::adamw(w.data(), g.data(), m.data(), v.data(), n, at_step(1));
  for (std::size_t i = 0; i < n; i += 13)
    optimizers::adamw(parts.data() + i, g.data() + i, part_m.data() + i, part_v.data() + i, 13, at_step(1));
  CHECK(parts == w);
}

TEST_CASE_TEMPLATE("sum of squares: in double, odd lengths", T, float, double) {
  CHECK(optimizers::sum_of_squares(static_cast<T const*>(nullptr), 0) == 0);
  for (std::size_t n : {std::size_t{1}, std::size_t{3}, std::size_t{17}, std::size_t{65}}) {
    std::vector<T> x(n);
    double expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<T>(i + 1);
      expected += static_cast<double>((i + 1) * (i + 1));
    }
    CHECK(optimizers::sum_of_squares(x.data(), n) == expected);  // whole numbers: exact
  }
  // 2^24 + 1 in float would stop at 2^24; the square of 1e30 overflows float.
  std::vector<T> const large{T(4096), T(1)}, huge{T(1e30)};
  CHECK(optimizers::sum_of_squares(large.data(), 2) == 16777217.0);
  CHECK(optimizers::sum_of_squares(huge.data(), 1) == doctest::Approx(1e60).epsilon(1e-6));
}

}  // namespace optimizer_test
