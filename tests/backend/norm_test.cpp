// SPDX-License-Identifier: Apache-2.0
#include <heddle/backend/host/norm.hpp>

#include "checks.hpp"

namespace norm_test {

namespace {

using heddle::host::norms;

constexpr std::size_t rows = 4;
constexpr double epsilon = 1e-5;

template <std::size_t N>
struct problem {
  std::vector<double> x = checks::values(rows * N, 1), gamma = checks::values(N, 2), beta = checks::values(N, 3),
                      dy = checks::values(rows * N, 4);
};

template <std::size_t N>
std::vector<double> expected(problem<N> const& p, bool centred, bool biased) {
  std::vector<double> y(rows * N);
  for (std::size_t i = 0; i < rows; ++i) {
    double mean = 0, squares = 0;
    if (centred)
      for (std::size_t j = 0; j < N; ++j) mean += p.x[i * N + j] / static_cast<double>(N);
    for (std::size_t j = 0; j < N; ++j) squares += (p.x[i * N + j] - mean) * (p.x[i * N + j] - mean);
    double const rstd = 1 / std::sqrt(squares / static_cast<double>(N) + epsilon);
    for (std::size_t j = 0; j < N; ++j)
      y[i * N + j] = (p.x[i * N + j] - mean) * rstd * p.gamma[j] + (biased ? p.beta[j] : 0);
  }
  return y;
}

template <std::size_t N>
void check_layer_norm(bool biased) {
  CAPTURE(N);
  CAPTURE(biased);
  problem<N> p;
  auto const reference = expected(p, true, biased);
  std::vector<double> y(rows * N), mean(rows), rstd(rows), dx(rows * N), dgamma(N), dbeta(N);
  double const* const beta = biased ? p.beta.data() : nullptr;
  auto const forward = [&] {
    norms::layer_norm<rows, N>(p.x.data(), p.gamma.data(), beta, epsilon, y.data(), mean.data(), rstd.data());
    return checks::dot(y, p.dy);
  };
  forward();
  CHECK(checks::distance(y, reference) < 1e-14);
  norms::layer_norm_backward<rows, N>(p.x.data(), p.gamma.data(), mean.data(), rstd.data(), p.dy.data(), nullptr,
                                      dx.data(), dgamma.data(), biased ? dbeta.data() : nullptr);
  // With one column x - mean is 0: its gradient is 0, and so are the differences.
  checks::gradient(p.x, dx, forward);
  checks::gradient(p.gamma, dgamma, forward);
  if (biased) checks::gradient(p.beta, dbeta, forward);

  // A second micro-batch adds.
  auto twice = dgamma, twice_beta = dbeta;
  for (double& value : twice) value *= 2;
  for (double& value : twice_beta) value *= 2;
  forward();
  auto in_place = p.dy;
  norms::layer_norm_backward<rows, N>(p.x.data(), p.gamma.data(), mean.data(), rstd.data(), in_place.data(), nullptr,
                                      in_place.data(), dgamma.data(), biased ? dbeta.data() : nullptr);
  CHECK(in_place == dx);
  CHECK(checks::distance(dgamma, twice) < 1e-14);
  CHECK(checks::distance(dbeta, twice_beta) < 1e-14);
  // Onto a base, and where the sum takes the base's place.
  auto sum = p.x, expected = dx;
  for (std::size_t i = 0; i < sum.size(); ++i) expected[i] += p.x[i];
  norms::layer_norm_backward<rows, N>(p.x.data(), p.gamma.data(), mean.data(), rstd.data(), p.dy.data(), sum.data(),
                                      sum.data(), dgamma.data(), biased ? dbeta.data() : nullptr);
  CHECK(checks::distance(sum, expected) < 1e-14);

  auto const x = checks::narrowed(p.x), gamma = checks::narrowed(p.gamma), beta32 = checks::narrowed(p.beta),
             dy = checks::narrowed(p.dy);
  std::vector<float> y32(rows * N), mean32(rows), rstd32(rows), dx32(rows * N), dgamma32(N), dbeta32(N);
  norms::layer_norm<rows, N>(x.data(), gamma.data(), biased ? beta32.data() : nullptr, 1e-5f, y32.data(), mean32.data(),
                             rstd32.data());
  norms::layer_norm_backward<rows, N>(x.data(), gamma.data(), mean32.data(), rstd32.data(), dy.data(), nullptr,
                                      dx32.data(), dgamma32.data(), dbeta32.data());
  if constexpr (N > 1) {  // with one column rstd is 1/√epsilon and magnifies the rounding of x - mean
    // Some dozens of roundings of 6e-8, magnified by |x|·rstd, at most about 5 here.
    CHECK(checks::distance(y32, reference) < 5e-6);
    CHECK(checks::distance(dx32, dx) < 2e-5);
    for (double& value : twice) value /= 2;
    CHECK(checks::distance(dgamma32, twice) < 5e-6);
  }
}

template <std::size_t N>
void check_rms_norm() {
  CAPTURE(N);
  problem<N> p;
  auto const reference = expected(p, false, false);
  std::vector<double> y(rows * N), rstd(rows), dx(rows * N), dgamma(N);
  auto const forward = [&] {
    norms::rms_norm<rows, N>(p.x.data(), p.gamma.data(), epsilon, y.data(), rstd.data());
    return checks::dot(y, p.dy);
  };
  forward();
  CHECK(checks::distance(y, reference) < 1e-14);
  norms::rms_norm_backward<rows, N>(p.x.data(), p.gamma.data(), rstd.data(), p.dy.data(), nullptr, dx.data(),
                                    dgamma.data());
  checks::gradient(p.x, dx, forward);
  checks::gradient(p.gamma, dgamma, forward);

  auto twice = dgamma;
  for (double& value : twice) value *= 2;
  forward();
  auto in_place = p.dy;
  norms::rms_norm_backward<rows, N>(p.x.data(), p.gamma.data(), rstd.data(), in_place.data(), nullptr, in_place.data(),
                                    dgamma.data());
  CHECK(in_place == dx);
  CHECK(checks::distance(dgamma, twice) < 1e-14);
  auto sum = p.x, expected = dx;
  for (std::size_t i = 0; i < sum.size(); ++i) expected[i] += p.x[i];
  norms::rms_norm_backward<rows, N>(p.x.data(), p.gamma.data(), rstd.data(), p.dy.data(), sum.data(), sum.data(),
                                    dgamma.data());
  CHECK(checks::distance(sum, expected) < 1e-14);

  auto const x = checks::narrowed(p.x), gamma = checks::narrowed(p.gamma), dy = checks::narrowed(p.dy);
  std::vector<float> y32(rows * N), rstd32(rows), dx32(rows * N), dgamma32(N);
  norms::rms_norm<rows, N>(x.data(), gamma.data(), 1e-5f, y32.data(), rstd32.data());
  norms::rms_norm_backward<rows, N>(x.data(), gamma.data(), rstd32.data(), dy.data(), nullptr, dx32.data(),
                                    dgamma32.data());
  CHECK(checks::distance(y32, reference) < 5e-6);
  CHECK(checks::distance(dx32, dx) < 2e-5);
}

}  // namespace

TEST_CASE("layer norm: values, gradients, accumulation, precisions, in place") {
  checks::for_odd_sizes([](auto n) {
    check_layer_norm<decltype(n)::value>(true);
    check_layer_norm<decltype(n)::value>(false);
  });
}

TEST_CASE("rms norm: values, gradients, accumulation, precisions, in place") {
  checks::for_odd_sizes([](auto n) { check_rms_norm<decltype(n)::value>(); });
}

TEST_CASE("layer norm: a large common offset does not cancel in float") {
  constexpr std::size_t N = 65;
  auto const deviation = checks::values(N, 1);
  std::vector<float> x(N), gamma(N, 1.0f), y(N);
  std::vector<double> expected(N);
  double mean = 0, squares = 0;
  // The offset 1000 leaves 6e-5 of each deviation; E[x²] - E[x]² would leave 0.06 of a variance of 1.3.
  for (std::size_t i = 0; i < N; ++i) x[i] = static_cast<float>(1000 + deviation[i]);
  for (float value : x) mean += static_cast<double>(value) / N;
  for (float value : x) squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean) / N;
  for (std::size_t i = 0; i < N; ++i) expected[i] = (static_cast<double>(x[i]) - mean) / std::sqrt(squares + epsilon);
  float average = 0, rstd = 0;
  norms::layer_norm<1, N>(x.data(), gamma.data(), static_cast<float const*>(nullptr), 1e-5f, y.data(), &average, &rstd);
  CHECK(checks::distance(y, expected) < 2e-4);
}

TEST_CASE("norms: values by hand") {
  // Row (1, 3): mean 2, variance 1, mean square 5.
  double const x[] = {1, 3}, gamma[] = {10, 100}, beta[] = {1, 2};
  double y[2], mean = 0, rstd = 0;
  norms::layer_norm<1, 2>(x, gamma, beta, 3.0, y, &mean, &rstd);
  CHECK(mean == 2);
  CHECK(rstd == 0.5);
  CHECK(y[0] == -4);
  CHECK(y[1] == 52);
  norms::rms_norm<1, 2>(x, gamma, 4.0, y, &rstd);
  CHECK(rstd == doctest::Approx(1.0 / 3));
  CHECK(y[0] == doctest::Approx(10.0 / 3));
  CHECK(y[1] == doctest::Approx(100.0));
}

}  // namespace norm_test
