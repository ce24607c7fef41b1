// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <heddle/pipeline/analysis.hpp>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/measured_schedule.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>

namespace measured_test {
namespace {

namespace pl = heddle::schedules;

/// What is measured at run time is what the compiler finds.
template <class S, std::size_t Stages, std::size_t MicroBatches>
void check_measured() {
  CAPTURE(Stages);
  CAPTURE(MicroBatches);
  auto const measured = pl::measure_schedule<S, Stages, MicroBatches>();
  using table = pl::schedule_table<S, Stages, MicroBatches>;
  CHECK_FALSE(measured.fault);
  CHECK(measured.bubble_of_total == pl::schedule_analysis<S, Stages, MicroBatches>::bubble_of_total);
  REQUIRE(measured.peak_in_flight.size() == Stages);
  for (std::size_t s = 0; s < Stages; ++s) {
    CHECK(measured.peak_in_flight[s] == table::peak_in_flight(s));
    CHECK(measured.gradients_ahead[s] == 1);
  }
}

/// Waits for a gradient before it sends what the gradient is of.
struct deadlocked {
  static constexpr void program(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                                pl::program_order& out) {
    using kind = pl::action_kind;
    bool const before = stage > 0, after = stage + 1 < stages;
    for (std::size_t m = 0; m < micro_batches; ++m) {
      if (before) out.emit(kind::receive_activation, m);
      out.emit(kind::forward, m);
      if (after) out.emit(kind::receive_gradient, m);
      if (after) out.emit(kind::send_activation, m);
      out.emit(kind::backward, m);
      if (before) out.emit(kind::send_gradient, m);
    }
    out.emit(kind::reduce_gradients);
    out.emit(kind::step);
  }
};
/// Forgets the last micro-batch.
struct forgetful {
  static constexpr void order(std::size_t, std::size_t, std::size_t micro_batches, pl::compute_order& out) {
    for (std::size_t m = 0; m + 1 < micro_batches; ++m) {
      out.forward(m);
      out.backward(m);
    }
  }
};
/// Receives all gradients before it reads one.
struct hoarding {
  static constexpr void program(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                                pl::program_order& out) {
    using kind = pl::action_kind;
    bool const before = stage > 0, after = stage + 1 < stages;
    for (std::size_t m = 0; m < micro_batches; ++m) {
      if (before) out.emit(kind::receive_activation, m);
      out.emit(kind::forward, m);
      if (after) out.emit(kind::send_activation, m);
    }
    for (std::size_t m = 0; after && m < micro_batches; ++m) out.emit(kind::receive_gradient, m);
    for (std::size_t m = 0; m < micro_batches; ++m) {
      out.emit(kind::backward, m);
      if (before) out.emit(kind::send_gradient, m);
    }
    out.emit(kind::reduce_gradients);
    out.emit(kind::step);
  }
};

}  // namespace

TEST_CASE("a schedule measures at run time as at compile time") {
  check_measured<heddle::gpipe, 1, 3>();
  check_measured<heddle::gpipe, 4, 6>();
  check_measured<heddle::one_f_one_b, 1, 1>();
  check_measured<heddle::one_f_one_b, 3, 2>();
  check_measured<heddle::one_f_one_b, 4, 9>();
}

TEST_CASE("sizes that would keep a compiler busy") {
  auto const measured = pl::measure_schedule<heddle::one_f_one_b, 64, 512>();
  CHECK(measured.bubble_of_total == pl::flush_bubble_of_total(64, 512));
  CHECK(measured.peak_in_flight[0] == 64);
  CHECK(measured.peak_in_flight[63] == 1);
}

TEST_CASE("faults are those of the proof") {
  CHECK(pl::measure_schedule<deadlocked, 2, 2>().fault == pl::fault_of<deadlocked, 2, 2>);
  CHECK(pl::measure_schedule<deadlocked, 2, 2>().fault.kind == pl::proof::fault_kind::deadlock);
  CHECK(pl::measure_schedule<forgetful, 2, 2>().fault == pl::fault_of<forgetful, 2, 2>);
  CHECK(pl::measure_schedule<forgetful, 2, 2>().fault.kind == pl::proof::fault_kind::forward_not_once);
}

TEST_CASE("gradients that arrive ahead are counted") {
  auto const measured = pl::measure_schedule<hoarding, 2, 3>();
  CHECK_FALSE(measured.fault);
  CHECK(measured.gradients_ahead[0] == 3);
  CHECK(measured.gradients_ahead[1] == 1);
}

}  // namespace measured_test
