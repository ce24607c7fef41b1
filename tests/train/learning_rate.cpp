// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <heddle/train/learning_rate.hpp>
#include <vector>

using heddle::cosine_schedule;

namespace learning_rate_test {
namespace {

constexpr cosine_schedule shakespeare({.peak = 1e-3, .floor = 1e-4, .warm_up = 100, .decay_end = 2000});

/// nanoGPT's get_lr, as written there.
double get_lr(double it, double learning_rate, double min_lr, double warmup_iters, double lr_decay_iters) {
  if (it < warmup_iters) return learning_rate * (it + 1) / (warmup_iters + 1);
  if (it > lr_decay_iters) return min_lr;
  double const decay_ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters);
  double const coeff = 0.5 * (1.0 + std::cos(3.14159265358979323846 * decay_ratio));
  return min_lr + coeff * (learning_rate - min_lr);
}

}  // namespace

static_assert(heddle::StepSchedule<cosine_schedule> && heddle::StepSchedule<heddle::constant_schedule>);
static_assert(shakespeare(100) == 1e-3);
static_assert(shakespeare(2000) == 1e-4 && shakespeare(100000) == 1e-4);
static_assert(cosine_schedule({.peak = 1, .warm_up = 4, .decay_end = 4})(4) == 1);
static_assert(cosine_schedule({.peak = 1, .warm_up = 4, .decay_end = 4})(5) == 0);
static_assert(heddle::constant_schedule{0.5}(7) == 0.5);

TEST_CASE("the rates are nanoGPT's") {
  double worst = 0;
  for (std::uint64_t step = 0; step < 2100; ++step)
    worst = std::max(worst, std::abs(shakespeare(step) - get_lr(static_cast<double>(step), 1e-3, 1e-4, 100, 2000)));
  CHECK(worst < 4e-19);  // two roundings at 1e-3; they differ in the cosine alone
}

TEST_CASE("the cosine is exact to two roundings over its range") {
  double worst = 0;
  for (int i = 0; i <= 100000; ++i) {
    double const ratio = i / 100000.0;
    auto const exact = std::cos(3.14159265358979323846264338327950288L * static_cast<long double>(ratio));
    worst = std::max(worst, std::abs(static_cast<double>(heddle::detail::cosine_of_half_turns(ratio) - exact)));
  }
  CHECK(worst < 2.3e-16);
}

TEST_CASE("RS-3: a run resumed at step 40 has bitwise the rates of an uninterrupted one") {
  cosine_schedule::values const rates{.peak = 6e-4, .floor = 6e-5, .warm_up = 10, .decay_end = 100};
  cosine_schedule::values const decays{.peak = 0.1, .floor = 0.02, .warm_up = 0, .decay_end = 100};
  std::vector<double> whole, resumed;
  for (std::uint64_t step = 0; step <= 100; ++step) {
    whole.push_back(cosine_schedule(rates)(step));
    whole.push_back(cosine_schedule(decays)(step));
  }
  std::uint64_t saved = 0;  // all the state there is
  for (; saved < 40; ++saved)
    resumed.insert(resumed.end(), {cosine_schedule(rates)(saved), cosine_schedule(decays)(saved)});
  for (std::uint64_t step = saved; step <= 100; ++step)
    resumed.insert(resumed.end(), {cosine_schedule(rates)(step), cosine_schedule(decays)(step)});
  CHECK(whole == resumed);
  CHECK(whole[2 * 40] != whole[2 * 80]);  // progress counted twice would show
}

TEST_CASE("impossible schedules are refused") {
  CHECK_THROWS_WITH_AS(cosine_schedule({.peak = 1, .warm_up = 5, .decay_end = 4}),
                       doctest::Contains("'decay_end' is 4; it must be at least 'warm_up', which is 5"), heddle::error);
  CHECK_THROWS_WITH_AS(cosine_schedule({.peak = 1, .floor = 2, .decay_end = 4}), doctest::Contains("'floor' is 2 and"),
                       heddle::error);
  CHECK_THROWS_AS(cosine_schedule({.peak = std::nan(""), .decay_end = 4}), heddle::error);
}

}  // namespace learning_rate_test
