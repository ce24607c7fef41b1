// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cross_entropy/cross_entropy.cuh>
#include <cstdint>
#include <heddle/backend/host/cross_entropy.hpp>
#include <limits>
#include <support/geometry.cuh>
#include <support/sum_parts.cuh>
#include <vector>

#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::check_near;
using emulation::guarded;
using emulation::launch;
using emulation::rounded;
using emulation::rounding;
using emulation::values;
using emulation::wide;

constexpr std::int32_t ignored = -100;
template <class T>
constexpr T infinite = std::numeric_limits<T>::infinity();
template <class T>
constexpr T no_number = std::numeric_limits<T>::quiet_NaN();

/// Equal, and NaN where NaN is.
template <class T>
void check_same(std::vector<wide<T>> const& got, std::vector<wide<T>> const& expected) {
  check_near<T>(got, expected, 0);
}
/// Rows of which the first are broken in one way each. Padded columns are NaN: they must not be looked at.
template <class T>
std::vector<wide<T>> rows_of_logits(std::size_t rows, std::size_t width, std::size_t valid, double spread) {
  using A = wide<T>;
  std::vector<A> x = values<T>(rows * width, 11 + width, spread);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i) {
      A& one = x[row * width + i];
      if (i >= valid)
        one = no_number<A>;
      else if (row == 1 || row == 2)
        one = -infinite<A>;
      else if (row == 3 && i == valid - 1)
        one = no_number<A>;
      else if (row == 4 && i % 2 == 0)
        one = -infinite<A>;
      else if (row == 5 && i == valid / 2)
        one = infinite<A>;
      else if (row == 6)
        one = A(1e4) + one;
    }
  return rounded<T>(x);
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
  using A = wide<T>;
  std::size_t const rows = 9;
  std::vector<A> const x = rows_of_logits<T>(rows, width, valid, spread);
  std::vector<std::int32_t> const wanted = targets_of(rows, valid, first);
  guarded<T> logits(x, offset), gradient(rows * width, offset);
  guarded<std::int32_t> const targets(wanted);
  int const w = static_cast<int>(width), v = static_cast<int>(valid);

  std::vector<A> expected_max(rows), expected_sum(rows), expected_logit(rows), expected_lse(rows);
  host::detail::cross_entropy_max(rows, width, x.data(), valid, expected_max.data());
  host::detail::cross_entropy_sum(rows, width, x.data(), valid, first, wanted.data(), expected_max.data(),
                                  expected_sum.data(), expected_logit.data());
  guarded<A> highest(rows), sum(rows), logit(rows);
  launch<kernels::cross_entropy_max<T, Threads>>(kernels::row_grid(rows), dim3(Threads), logits.read(), w, v,
                                                 highest.data());
  check_same<A>(highest.values(), expected_max);
  launch<kernels::cross_entropy_sum<T, Threads>>(kernels::row_grid(rows), dim3(Threads), logits.read(), w, v,
                                                 static_cast<long long>(first), targets.read(), highest.read(),
                                                 sum.data(), logit.data());
  check_near<A>(sum.values(), expected_sum);
  check_same<A>(logit.values(), expected_logit);
  CHECK(std::isnan(sum.values()[1]) == (valid > 0));  // of -infinity alone

  host::detail::cross_entropy_loss(rows, wanted.data(), ignored, expected_max.data(), expected_sum.data(),
                                   expected_logit.data(), expected_lse.data());
  A const scale = A(0.375);
  std::vector<A> expected(rows * width);
  host::detail::cross_entropy_backward(rows, width, x.data(), valid, first, wanted.data(), ignored, expected_lse.data(),
                                       scale, expected.data());
  guarded<A> const log_sum_exp(expected_lse), scale_there(std::vector<A>{scale});
  auto const backward = [&](T* to) {
    launch<kernels::cross_entropy_backward<T, Threads>>(kernels::row_grid(rows), dim3(Threads), logits.read(), w, v,
                                                        static_cast<long long>(first), targets.read(), ignored,
                                                        log_sum_exp.read(), scale_there.read(), to);
  };
  backward(gradient.data());
  std::vector<A> const got = gradient.values();
  check_near<T>(got, expected, 4);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < width; ++i)
      if (i >= valid || wanted[row] == ignored) CHECK(got[row * width + i] == A(0));
  backward(logits.data());
  check_same<T>(logits.values(), got);
}

template <class A, int Threads>
double loss_of(std::vector<std::int32_t> const& wanted, std::vector<A> const& maxima, std::vector<A> const& sums,
               std::vector<A> const& logits, std::vector<A>& log_sum_exp) {
  std::size_t const rows = wanted.size();
  dim3 const grid = kernels::thread_grid<Threads>(static_cast<long long>(rows));
  guarded<std::int32_t> const targets(wanted);
  guarded<A> const highest(maxima), sum(sums), logit(logits);
  guarded<double> part(grid.x), loss(1);
  guarded<A> lse(rows);
  launch<kernels::cross_entropy_loss<A, Threads>>(grid, dim3(Threads), static_cast<long long>(rows), targets.read(),
                                                  ignored, highest.read(), sum.read(), logit.read(), lse.data(),
                                                  part.data());
  CHECK(part.values().size() == grid.x);
  log_sum_exp = lse.values();
  guarded<long long> const cut(std::vector<long long>{0, static_cast<long long>(grid.x)});
  launch<kernels::sum_parts<double, double, Threads>>(dim3(1), dim3(Threads), part.read(), cut.read(), loss.data());
  guarded<A> rounded_loss(1);
  launch<kernels::sum_parts<double, A, Threads>>(dim3(1), dim3(Threads), part.read(), cut.read(), rounded_loss.data());
  CHECK(rounded_loss.values()[0] == static_cast<A>(loss.values()[0]));
  return loss.values()[0];
}
template <class A, int Threads>
void check_loss(std::size_t rows, A far) {
  CAPTURE(rows);
  std::vector<std::int32_t> const targets = targets_of(rows, 5, 0);
  std::vector<A> highest = values<A>(rows, 1, 5), sum = values<A>(rows, 2), logit = values<A>(rows, 3, 5);
  for (std::size_t row = 0; row < rows; ++row) {
    sum[row] += A(1.5);
    highest[row] += far;
    logit[row] += far;
    if (targets[row] == ignored) sum[row] = no_number<A>;
  }
  std::vector<A> expected_lse(rows), lse;
  double const expected = host::detail::cross_entropy_loss(rows, targets.data(), ignored, highest.data(), sum.data(),
                                                           logit.data(), expected_lse.data());
  double const got = loss_of<A, Threads>(targets, highest, sum, logit, lse);
  check_near<A>(lse, expected_lse, 4);
  CHECK(std::isfinite(got));
  CHECK(std::fabs(got - expected) <= static_cast<double>(rows) * 4 * rounding<A>::epsilon);
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
  for (std::size_t width : {1, 33, 264}) {  // computed in float, rounded once
    check_steps<__nv_bfloat16, 32>(width, width, 0, 0);
    check_steps<__nv_bfloat16, 64>(width, width - width / 3, 1000, 1);
    check_steps<__half, 64>(width, width, 5, 0);
    check_steps<__half, 32>(width, width - width / 3, 70000, 1);
  }
  check_steps<float, 256>(2001, 2000, 0, 0, 80);
  check_steps<double, 256>(2000, 1999, 0, 0, 700);
}
TEST_CASE("cross-entropy's backward takes its scale from device memory: a launch repeated as it was finds another") {
  guarded<float> const logits(values<float>(40, 1)), log_sum_exp(std::vector<float>{3});
  guarded<std::int32_t> const targets(std::vector<std::int32_t>{7});
  guarded<float> scale(std::vector<float>{1}), dlogits(40);
  auto const replayed = [&] {
    launch<kernels::cross_entropy_backward<float, 32>>(dim3(1), dim3(32), logits.read(), 40, 40, 0LL, targets.read(),
                                                       ignored, log_sum_exp.read(), scale.read(), dlogits.data());
    return dlogits.values();
  };
  std::vector<float> const once = replayed();
  *scale.data() = 1024;
  std::vector<float> const again = replayed();
  for (std::size_t i = 0; i < 40; ++i) CHECK(again[i] == 1024 * once[i]);
}
TEST_CASE("cross-entropy: the sum has the same bits at any address") {
  std::vector<float> const x = values<float>(256, 3, 4);
  guarded<float> const highest(std::vector<float>{4});
  guarded<std::int32_t> const targets(std::vector<std::int32_t>{0});
  auto const sum_at = [&](std::size_t shift) {
    guarded<float> const logits(x, shift);
    guarded<float> sum(1), logit(1);
    launch<kernels::cross_entropy_sum<float, 32>>(dim3(1), dim3(32), logits.read(), 256, 256, 0LL, targets.read(),
                                                  highest.read(), sum.data(), logit.data());
    return sum.values();
  };
  CHECK(sum_at(1) == sum_at(0));
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
    launch<kernels::cross_entropy_max<float, 32>>(dim3(1), dim3(32), logits.data(), 4, valid[rank], &highest[rank]);
  highest[0] = std::max(highest[0], highest[1]);  // as the ranks reduce it, and then the sums
  for (std::size_t rank = 0; rank < 2; ++rank)
    launch<kernels::cross_entropy_sum<float, 32>>(dim3(1), dim3(32), logits.data(), 4, valid[rank],
                                                  rank == 0 ? 0LL : 4LL, targets.data(), highest.data(), &sum[rank],
                                                  &logit[rank]);
  sum[0] += sum[1];
  logit[0] += logit[1];
  CHECK(loss_of<float, 32>(targets, highest, sum, logit, lse) == doctest::Approx(1.609438));
}
