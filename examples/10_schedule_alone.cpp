// SPDX-License-Identifier: Apache-2.0
// A pipeline schedule of one's own, proved and timed by the compiler: no model, no trainer.
#include <cstdio>
#include <heddle/pipeline/analysis.hpp>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>
#include <string>

namespace hd = heddle;

// [schedule]
/// Forwards run ahead by at most two micro-batches, whatever the stage: less memory than 1F1B on the first stages, and
/// a longer step.
struct two_ahead {
  static constexpr void order(std::size_t, std::size_t, std::size_t micro_batches, hd::schedules::compute_order& out) {
    for (std::size_t m = 0; m < micro_batches + 1; ++m) {
      if (m < micro_batches) out.forward(m);
      if (m > 0) out.backward(m - 1);
    }
  }
};

using table = hd::schedules::schedule_table<two_ahead, 4, 8>;  // does not compile unless the schedule is sound
using analysis = hd::schedules::schedule_analysis<two_ahead, 4, 8>;
static_assert(table::peak_in_flight(0) == 2);
static_assert(hd::schedules::schedule_table<hd::one_f_one_b, 4, 8>::peak_in_flight(0) == 4);
static_assert(analysis::bubble_of_total > hd::schedules::schedule_analysis<hd::one_f_one_b, 4, 8>::bubble_of_total);
// [/schedule]

// [unsound]
/// A backward before its forward: no table of it can be used.
struct backwards_first {
  static constexpr void order(std::size_t, std::size_t, std::size_t micro_batches, hd::schedules::compute_order& out) {
    for (std::size_t m = 0; m < micro_batches; ++m) {
      out.backward(m);
      out.forward(m);
    }
  }
};
static_assert(hd::Schedule<backwards_first> && !hd::SoundSchedule<backwards_first, 4, 8>);
// [/unsound]

namespace {

/// A row per stage, a column per unit of time: forwards as digits, backwards as letters.
template <class S>
void print_chart(char const* name) {
  constexpr std::size_t stages = 4, micro_batches = 8;
  using analysis = hd::schedules::schedule_analysis<S, stages, micro_batches>;
  std::printf("%s: %zu units, bubble %zu/%zu of total time, in flight", name, std::size_t{analysis::makespan},
              std::size_t{analysis::bubble_of_total.normalised().num},
              std::size_t{analysis::bubble_of_total.normalised().den});
  for (std::size_t s = 0; s < stages; ++s)
    std::printf(" %zu", hd::schedules::schedule_table<S, stages, micro_batches>::peak_in_flight(s));
  std::printf("\n");
  for (std::size_t s = 0; s < stages; ++s) {
    std::string row(analysis::makespan, '.');
    for (auto const& a : hd::schedules::timeline<S, stages, micro_batches>::stage(s))
      for (auto t = a.start; t < a.end; ++t)
        row[t] =
            static_cast<char>((a.what.kind == hd::schedules::action_kind::forward ? '0' : 'a') + a.what.micro_batch);
    std::printf("  stage %zu  %s\n", s, row.c_str());
  }
}

}  // namespace

int main() {
  print_chart<hd::gpipe>("gpipe");
  print_chart<hd::one_f_one_b>("one_f_one_b");
  print_chart<two_ahead>("two_ahead");
}
