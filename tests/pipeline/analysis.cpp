// SPDX-License-Identifier: Apache-2.0
#include <heddle/pipeline/analysis.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "grid.hpp"

namespace analysis_test {
namespace {

namespace pl = heddle::schedules;
using heddle::gpipe;
using heddle::one_f_one_b;
using heddle::ratio;

constexpr bool near(ratio r, double value, double tolerance) {
  return r.to_double() - value <= tolerance && value - r.to_double() <= tolerance;
}

// The papers' rows, by their id in paper-values.csv. PTD-P's bubble is over ideal time, GPipe's over total time.
constexpr ratio of_ideal(std::size_t p, std::size_t m) { return pl::flush_bubble_of_ideal(p, m); }
constexpr ratio of_total(std::size_t p, std::size_t m) { return pl::flush_bubble_of_total(p, m); }
// arXiv 2104.04473 Table 1: m = B / (d·b).
static_assert(near(of_ideal(2, 1536 / 32), 0.020833, 1e-6));  // PTD-045
static_assert(near(of_ideal(8, 2304 / 24), 0.072917, 1e-6));  // PTD-049
static_assert(near(of_ideal(35, 2520 / 9), 0.121429, 1e-6));  // PTD-053
static_assert(of_ideal(5, 16) == ratio{5 - 1, 16});           // PTD-075: (p-1)/m, GPipe or 1F1B
// PTD-077: t = 1, n devices, d replicas, b' = B/b: (n-d)/b'.
constexpr bool ptd_077(std::size_t n, std::size_t d, std::size_t b) {
  return of_ideal(n / d, b / d) == ratio{n - d, b};
}
static_assert(ptd_077(32, 1, 128) && ptd_077(32, 4, 128) && ptd_077(128, 16, 512));  // PTD-077
static_assert(of_ideal(128 / 16, 512 / 16) == ratio{21875, 100000});                 // PTD-079
static_assert(of_ideal(4, 8) == ratio{375, 1000});                                   // PTD-081
static_assert(of_ideal(8, 64) == ratio{109375, 1000000});                            // PTD-083
static_assert(of_total(3, 7) == ratio{3 - 1, 7 + 3 - 1});                            // GPI-001
// GPI-003: negligible from M >= 4K on; by then less than a fifth of the time.
static_assert(of_total(2, 8) < ratio{1, 5} && of_total(8, 32) < ratio{1, 5} && of_total(64, 256) < ratio{1, 5});
static_assert(near(of_total(4, 16), 0.157895, 1e-6));  // GPI-004
static_assert(of_total(2, 1) == ratio{1, 2});          // GPI-006

// The same rows, simulated.
template <class S, std::size_t P, std::size_t M>
using simulated = pl::schedule_analysis<S, P, M>;
static_assert(simulated<one_f_one_b, 2, 48>::bubble_of_ideal == of_ideal(2, 48));  // PTD-045
static_assert(simulated<one_f_one_b, 8, 96>::bubble_of_ideal == of_ideal(8, 96));  // PTD-049
static_assert(simulated<one_f_one_b, 4, 8>::bubble_of_ideal == ratio{3, 8});       // PTD-081
static_assert(simulated<gpipe, 8, 64>::bubble_of_ideal == ratio{7, 64});           // PTD-083
static_assert(simulated<gpipe, 4, 16>::bubble_of_total == ratio{3, 19});           // GPI-004
static_assert(simulated<gpipe, 2, 1>::bubble_of_total == ratio{1, 2});             // GPI-006

template <class S, std::size_t P, std::size_t M>
struct formula_holds {
  static constexpr bool holds() {
    using a = simulated<S, P, M>;
    return a::makespan == (M + P - 1) * 3 && a::busy == P * M * 3 && a::bubble_of_total == of_total(P, M) &&
           a::bubble_of_ideal == of_ideal(P, M);
  }
};
static_assert(grid::for_all<formula_holds, gpipe>());
static_assert(grid::for_all<formula_holds, one_f_one_b>());

/// When everything ends, found another way: start from zero and raise each action's end to what its stage and its
/// neighbours' ends demand, until nothing changes. No channels, no buffers, no order of simulation.
template <class S, std::size_t P, std::size_t M>
std::uint64_t relaxed_makespan(std::uint64_t forward, std::uint64_t backward, std::uint64_t transfer) {
  std::uint64_t end[P][M][2] = {};
  std::uint64_t latest = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t s = 0; s < P; ++s) {
      std::uint64_t clock = 0;
      for (pl::action const& a : pl::schedule_table<S, P, M>::actions(s)) {
        if (!pl::is_compute(a.kind)) continue;
        bool const is_forward = a.kind == pl::action_kind::forward;
        if (is_forward && s > 0) clock = std::max(clock, end[s - 1][a.micro_batch][0] + transfer);
        if (!is_forward && s + 1 < P) clock = std::max(clock, end[s + 1][a.micro_batch][1] + transfer);
        clock += is_forward ? forward : backward;
        std::uint64_t& known = end[s][a.micro_batch][is_forward ? 0 : 1];
        changed = changed || known != clock;
        known = clock;
        latest = std::max(latest, clock);
      }
    }
  }
  return latest;
}

template <class S, std::size_t P, std::size_t M, std::uint32_t F, std::uint32_t B, std::uint32_t T>
void compare_makespans() {
  constexpr pl::schedule_costs costs{.forward = F, .backward = B, .transfer = T};
  CAPTURE(P);
  CAPTURE(M);
  CHECK(pl::schedule_analysis<S, P, M, costs>::makespan == relaxed_makespan<S, P, M>(F, B, T));
}

}  // namespace

TEST_CASE("the makespan is the longest chain of dependencies, for any costs") {
  compare_makespans<one_f_one_b, 4, 8, 1, 2, 0>();
  compare_makespans<one_f_one_b, 4, 8, 3, 5, 1>();
  compare_makespans<one_f_one_b, 5, 3, 2, 3, 2>();
  compare_makespans<one_f_one_b, 3, 7, 4, 1, 0>();
  compare_makespans<gpipe, 4, 8, 3, 5, 1>();
  compare_makespans<gpipe, 2, 5, 7, 2, 3>();
}

namespace {
/// 1F1B whose first stage takes no gradient before it has run all forwards.
struct slow_to_take {
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t m, pl::compute_order& out) {
    if (stage > 0) return one_f_one_b::order(stage, stages, m, out);
    for (std::size_t i = 0; i < m; ++i) out.forward(i);
    for (std::size_t i = 0; i < m; ++i) out.backward(i);
  }
};
}  // namespace

TEST_CASE("a computation waits until its send buffer is free") {
  constexpr pl::schedule_costs costs{.forward = 4, .backward = 1};
  auto const last = pl::timeline<slow_to_take, 2, 4, costs>::stage(1);
  CHECK(last[2].what == pl::action{pl::action_kind::forward, 1, 0});
  CHECK(last[2].end == 13);
  // The only slot's gradient of micro-batch 0 is taken when stage 0 has ended its forwards, at 16.
  CHECK(last[3].what == pl::action{pl::action_kind::backward, 1, 0});
  CHECK(last[3].start == 16);
}

TEST_CASE("the timeline of 1F1B with p = 2, m = 2") {
  using line = pl::timeline<one_f_one_b, 2, 2>;
  using enum pl::action_kind;
  constexpr pl::timed_action first[] = {
      {{forward, 0, 0}, 0, 1}, {{forward, 1, 0}, 1, 2}, {{backward, 0, 0}, 4, 6}, {{backward, 1, 0}, 7, 9}};
  constexpr pl::timed_action second[] = {
      {{forward, 0, 0}, 1, 2}, {{backward, 0, 0}, 2, 4}, {{forward, 1, 0}, 4, 5}, {{backward, 1, 0}, 5, 7}};
  CHECK(std::ranges::equal(line::stage(0), first));
  CHECK(std::ranges::equal(line::stage(1), second));
}

}  // namespace analysis_test
