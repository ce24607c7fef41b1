// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cross_entropy/cross_entropy.cuh>
#include <cstdint>
#include <heddle/backend/host/cross_entropy.hpp>
#include <limits>
#include <support/sum_parts.cuh>
#include <vector>

#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::check_near;
using emulation::launch;
using emulation::values;

constexpr std::size_t guard = 9;
constexpr std::int32_t ignored = -100;
template <class T>
constexpr T infinite = std::numeric_limits<T>::infinity();
template <class T>
constexpr T no_number = std::numeric_limits<T>::quiet_NaN();

/// `n` elements to be written, with a border that must stay.
template <class T>
std::vector<T> empty(std::size_t n) {
  return std::vector<T>(n + guard, T(-7));
}
/// The elements without the border, which is as it was.
template <class T>
std::vector<T> written(std::vector<T> const& x) {
  for (std::size_t i = x.size() - guard; i < x.size(); ++i) CHECK(x[i] == T(-7));
  return {x.begin(), x.end() - guard};
}
template <class T>
void check_same(std::vector<T> const& got, std::vector<T> const& expected) {
  check_near(got, expected, 0);
}
dim3 blocks(std::size_t n) { return dim3(static_cast<unsigned>(n)); }
dim3 covering(std::size_t n, int threads) {
  return blocks((n + static_cast<unsigned>(threads) - 1) / static_cast<unsigned>(threads));
}

/// Rows of which the first are broken in one way each. Padded columns are NaN: they must not be looked at.
template <class T>
std::vector<T> rows_of_logits(std::size_t rows, std::size_t width, std::size_t valid, double spread) {
  std::vector<T> x = values<T>(rows * width, 11 + width, spread);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      T& one = x[row * width + i];
      if (i >= valid)
        one = no_number<T>;
      else if (row == 1 || row == 2)
        one = -infinite<T>;
      else if (row == 3 && i == valid - 1)
        one = no_number<T>;
      else if (row == 4 && i % 2 == 0)
        one = -infinite<T>;
      else if (row == 5 && i == valid / 2)
        one = infinite<T>;
      else if (row == 6)
        one = T(1e4) + one;
    }
  return x;
}
/// Of this part's columns, of others, and to be ignored; in row 2, of -infinity alone, too.
std::vector<std::int32_t> targets_of(std::size_t rows, std::size_t valid, std::int64_t first) {
  std::vector<std::int32_t> targets(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t const last = first + static_cast<std::int64_t>(valid);
    std::int64_t const choice[] = {
        first, last - 1, ignored, first - 1, last, ignored, first + static_cast<std::int64_t>(row * 7 % (valid + 1))};
    targets[row] = static_cast<std::int32_t>(choice[row % 7]);
  }
  return targets;
}

template <class T, int Threads>
void check_steps(std::size_t width, std::size_t valid, std::int64_t first, std::size_t offset, double spread = 3) {
  CAPTURE(Threads);
  CAPTURE(width);
  CAPTURE(valid);
  CAPTURE(offset);
  std::size_t const rows = 9;
  std::vector<T> x = rows_of_logits<T>(rows, width, valid, spread);
  x.insert(x.begin(), offset, T(-7));  // addresses that 16 does not divide
  T const* const logits = x.data() + offset;
  std::vector<std::int32_t> const targets = targets_of(rows, valid, first);
  int const w = static_cast<int>(width), v = static_cast<int>(valid);

  std::vector<T> expected_max(rows), expected_sum(rows), expected_logit(rows), expected_lse(rows);
  host::detail::cross_entropy_max(rows, width, logits, valid, expected_max.data());
  host::detail::cross_entropy_sum(rows, width, logits, valid, first, targets.data(), expected_max.data(),
                                  expected_sum.data(), expected_logit.data());
  std::vector<T> highest = empty<T>(rows), sum = empty<T>(rows), logit = empty<T>(rows);
  launch("cross_entropy_max", kernels::cross_entropy_max<T, Threads>, blocks(rows), dim3(Threads), logits, w, v,
         highest.data());
  check_same(written(highest), expected_max);
  launch("cross_entropy_sum", kernels::cross_entropy_sum<T, Threads>, blocks(rows), dim3(Threads), logits, w, v,
         static_cast<long long>(first), targets.data(), highest.data(), sum.data(), logit.data());
  check_near(written(sum), expected_sum);
  check_same(written(logit), expected_logit);
  CHECK(std::isnan(sum[1]) == (valid > 0));  // of -infinity alone

  host::detail::cross_entropy_loss(rows, targets.data(), ignored, expected_max.data(), expected_sum.data(),
                                   expected_logit.data(), expected_lse.data());
  T const scale = T(0.375);
  std::vector<T> expected(rows * width), gradient = empty<T>(rows * width + offset);
  host::detail::cross_entropy_backward(rows, width, logits, valid, first, targets.data(), ignored, expected_lse.data(),
                                       scale, expected.data());
  launch("cross_entropy_backward", kernels::cross_entropy_backward<T, Threads>, blocks(rows), dim3(Threads), logits, w,
         v, static_cast<long long>(first), targets.data(), ignored, expected_lse.data(), scale,
         gradient.data() + offset);
  std::vector<T> got = written(gradient);
  for (std::size_t i = 0; i < offset; ++i) CHECK(got[i] == T(-7));
  got.erase(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(offset));
  check_near(got, expected, 4);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i)
      if (i >= valid || targets[row] == ignored) CHECK(got[row * width + i] == T(0));

  launch("cross_entropy_backward", kernels::cross_entropy_backward<T, Threads>, blocks(rows), dim3(Threads), logits, w,
         v, static_cast<long long>(first), targets.data(), ignored, expected_lse.data(), scale, x.data() + offset);
  for (std::size_t i = 0; i < offset; ++i) CHECK(x[i] == T(-7));
  x.erase(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(offset));
  check_same(x, got);
}

template <class T, int Threads>
double loss_of(std::vector<std::int32_t> const& targets, std::vector<T> const& highest, std::vector<T> const& sum,
               std::vector<T> const& logit, std::vector<T>& log_sum_exp) {
  std::size_t const rows = targets.size();
  dim3 const grid = covering(rows, Threads);
  std::vector<double> part = empty<double>(grid.x), loss = empty<double>(1);
  std::vector<T> lse = empty<T>(rows);
  launch("cross_entropy_loss", kernels::cross_entropy_loss<T, Threads>, grid, dim3(Threads),
         static_cast<long long>(rows), targets.data(), ignored, highest.data(), sum.data(), logit.data(), lse.data(),
         part.data());
  written(part);
  log_sum_exp = written(lse);
  std::vector<long long> const cut{0, static_cast<long long>(grid.x)};
  launch("sum_parts", kernels::sum_parts<double, Threads>, dim3(1), dim3(Threads), part.data(), cut.data(),
         loss.data());
  return written(loss)[0];
}
template <class T, int Threads>
void check_loss(std::size_t rows, T far) {
  CAPTURE(rows);
  std::vector<std::int32_t> const targets = targets_of(rows, 5, 0);
  std::vector<T> highest = values<T>(rows, 1, 5), sum = values<T>(rows, 2), logit = values<T>(rows, 3, 5);
  for (std::size_t row = 0; row < rows; ++row) {
    sum[row] += T(1.5);
    highest[row] += far;
    logit[row] += far;
    if (targets[row] == ignored) sum[row] = no_number<T>;
  }
  std::vector<T> expected_lse(rows), lse;
  double const expected = host::detail::cross_entropy_loss(rows, targets.data(), ignored, highest.data(), sum.data(),
                                                           logit.data(), expected_lse.data());
  double const got = loss_of<T, Threads>(targets, highest, sum, logit, lse);
  check_near(lse, expected_lse, 4);
  CHECK(std::isfinite(got));
  CHECK(std::fabs(got - expected) <=
        static_cast<double>(rows) * 4 * static_cast<double>(std::numeric_limits<T>::epsilon()));
}

}  // namespace

TEST_CASE("cross-entropy's steps and backward: padding, parts, broken rows, in place, at any address") {
  for (std::size_t width : {1, 31, 32, 33, 100, 257, 520}) {
    check_steps<float, 32>(width, width, 0, 0);
    check_steps<double, 64>(width, width, 5, 0);
    check_steps<float, 128>(width, width - width / 3, 1000, 0);
    check_steps<double, 32>(width, width - width / 3, 70000, 1);
    check_steps<float, 64>(width, width, 3, 1);
    check_steps<float, 32>(width, 0, 3, 0);  // a part of padding alone
  }
  check_steps<float, 256>(2001, 2000, 0, 0, 80);
  check_steps<double, 256>(2000, 1999, 0, 0, 700);
}
TEST_CASE("cross-entropy: the sum has the same bits at any address") {
  std::vector<float> x = values<float>(1 + 256, 3, 4), highest(1, 4), one(1), other(1), logit(1);
  std::vector<std::int32_t> const targets{0};
  launch("cross_entropy_sum", kernels::cross_entropy_sum<float, 32>, dim3(1), dim3(32), x.data() + 1, 256, 256, 0LL,
         targets.data(), highest.data(), one.data(), logit.data());
  x.erase(x.begin());
  launch("cross_entropy_sum", kernels::cross_entropy_sum<float, 32>, dim3(1), dim3(32), x.data(), 256, 256, 0LL,
         targets.data(), highest.data(), other.data(), logit.data());
  CHECK(one == other);
}
TEST_CASE("cross-entropy's loss: rows to ignore, large logits that cancel, several blocks") {
  for (std::size_t rows : {1, 2, 3, 32, 33, 257, 1100}) {
    check_loss<float, 32>(rows, 0);
    check_loss<double, 32>(rows, 0);
    check_loss<float, 256>(rows, 1024);
    check_loss<double, 64>(rows, 1e6);
  }
  // known-faults CE-2: nothing counts.
  std::vector<float> lse;
  CHECK(loss_of<float, 64>({ignored, ignored}, {1, 2}, {1, no_number<float>}, {0, 0}, lse) == 0);
}
TEST_CASE("known-faults VP-2: a vocabulary of 5 in two parts of 4, all logits 0, has the loss ln 5") {
  std::vector<float> const logits(4, 0);
  std::vector<std::int32_t> const targets{4};
  std::vector<float> highest(2), sum(2), logit(2), lse;
  int const valid[] = {4, 1};
  for (std::size_t rank = 0; rank < 2; ++rank)
    launch("cross_entropy_max", kernels::cross_entropy_max<float, 32>, dim3(1), dim3(32), logits.data(), 4, valid[rank],
           &highest[rank]);
  highest[0] = std::max(highest[0], highest[1]);  // as the ranks reduce it, and then the sums
  for (std::size_t rank = 0; rank < 2; ++rank)
    launch("cross_entropy_sum", kernels::cross_entropy_sum<float, 32>, dim3(1), dim3(32), logits.data(), 4, valid[rank],
           rank == 0 ? 0LL : 4LL, targets.data(), highest.data(), &sum[rank], &logit[rank]);
  sum[0] += sum[1];
  logit[0] += logit[1];
  CHECK(loss_of<float, 32>(targets, highest, sum, logit, lse) == doctest::Approx(1.609438));
}
TEST_CASE("cross-entropy of logits in bfloat16 is computed in float") {
  using narrow = __nv_bfloat16;
  std::size_t const rows = 5, width = 600, valid = 597;
  std::vector<narrow> logits = values<narrow>(rows * width, 1, 6);
  std::vector<float> const wide(logits.begin(), logits.end());
  std::vector<std::int32_t> const targets{0, 596, ignored, 40, 1000};
  std::vector<float> highest(rows), sum(rows), logit(rows), lse(rows), expected_max(rows), expected_sum(rows),
      expected_logit(rows), expected(rows * width);
  host::detail::cross_entropy_max(rows, width, wide.data(), valid, expected_max.data());
  host::detail::cross_entropy_sum(rows, width, wide.data(), valid, 0, targets.data(), expected_max.data(),
                                  expected_sum.data(), expected_logit.data());
  host::detail::cross_entropy_loss(rows, targets.data(), ignored, expected_max.data(), expected_sum.data(),
                                   expected_logit.data(), lse.data());
  host::detail::cross_entropy_backward(rows, width, wide.data(), valid, 0, targets.data(), ignored, lse.data(), 1.0F,
                                       expected.data());
  launch("cross_entropy_max", kernels::cross_entropy_max<narrow, 64>, blocks(rows), dim3(64), logits.data(), 600, 597,
         highest.data());
  check_same(highest, expected_max);
  launch("cross_entropy_sum", kernels::cross_entropy_sum<narrow, 64>, blocks(rows), dim3(64), logits.data(), 600, 597,
         0LL, targets.data(), highest.data(), sum.data(), logit.data());
  check_near(sum, expected_sum);
  check_same(logit, expected_logit);
  launch("cross_entropy_backward", kernels::cross_entropy_backward<narrow, 64>, blocks(rows), dim3(64), logits.data(),
         600, 597, 0LL, targets.data(), ignored, lse.data(), 1.0F, logits.data());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::fabs(float(logits[i]) - expected[i]) <= 0x1p-8F * std::fabs(expected[i]) + 0x1p-40F);
}
