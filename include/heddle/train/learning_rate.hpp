// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstdint>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <string>

namespace heddle {

namespace detail {

/// cos(pi·ratio) for ratio in [0, 1], within 2 roundings: the same bits at compile time, at run time and on every
/// platform.
constexpr double cosine_of_half_turns(double ratio) {
  double const x = 3.14159265358979323846 * (0.5 - ratio);  // cos(pi·ratio) = sin(pi·(1/2 - ratio)), |x| <= pi/2
  double const square = x * x;
  double sum = 0;
  for (int n = 23; n >= 3; n -= 2)
    sum = (1 + sum) * (-square / (n * (n - 1)));  // Taylor: the first term left out is below 1e-20
  return x + x * sum;
}

}  // namespace detail

/// A learning rate (or any other factor, such as weight decay) as a pure function of the step's number, so a resumed
/// run continues with the same bits: there is no state to save, and nothing to advance on loading.
template <class Schedule>
concept StepSchedule = requires(Schedule const& schedule, std::uint64_t step) {
  { schedule(step) } -> std::same_as<double>;
};

/// The same value at every step.
struct constant_schedule {
  double value = 0;
  constexpr double operator()(std::uint64_t) const { return value; }
};

/// Linear warm-up to `peak`, then half a cosine down to `floor`, then `floor`: nanoGPT's `get_lr`.
///
///     step <  warm_up     peak · (step + 1) / (warm_up + 1)
///     step <= decay_end   floor + (peak − floor) · (1 + cos(pi · (step − warm_up) / (decay_end − warm_up))) / 2
///     step >  decay_end   floor
///
/// Steps count from 0. Loshchilov and Hutter, SGDR, arXiv 1608.03983, section 3, without restarts.
class cosine_schedule {
 public:
  struct values {
    double peak = 0;              ///< the rate at step `warm_up`
    double floor = 0;             ///< the rate from step `decay_end` on
    std::uint64_t warm_up = 0;    ///< steps of warm-up
    std::uint64_t decay_end = 0;  ///< step at which `floor` is reached; at least `warm_up`
  };

  /// An error where decay_end < warm_up, or the rates are not 0 <= floor <= peak.
  explicit constexpr cosine_schedule(values given) : values_(given) {
    if (given.decay_end < given.warm_up)
      throw error(detail::joined_text({"cosine_schedule: 'decay_end' is ", given.decay_end,
                                       "; it must be at least 'warm_up', which is ", given.warm_up}));
    if (!(given.floor >= 0 && given.peak >= given.floor && given.peak < 1e300))
      throw error(detail::joined_text({"cosine_schedule: 'floor' is ", given.floor, " and 'peak' is ", given.peak,
                                       "; give finite rates with 0 <= floor <= peak"}));
  }

  constexpr double operator()(std::uint64_t step) const {
    auto const& v = values_;
    if (step < v.warm_up) return v.peak * static_cast<double>(step + 1) / static_cast<double>(v.warm_up + 1);
    if (step >= v.decay_end) return step == v.warm_up ? v.peak : v.floor;
    double const ratio = static_cast<double>(step - v.warm_up) / static_cast<double>(v.decay_end - v.warm_up);
    return v.floor + 0.5 * (1 + detail::cosine_of_half_turns(ratio)) * (v.peak - v.floor);
  }

 private:
  values values_;
};

}  // namespace heddle
