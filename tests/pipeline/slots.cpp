// SPDX-License-Identifier: Apache-2.0
#include <heddle/pipeline/slots.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>

#include <heddle/pipeline/schedule_table.hpp>
#include "grid.hpp"

namespace slots_test {
namespace {

namespace pl = heddle::schedules;
using heddle::gpipe;
using heddle::one_f_one_b;

template <class S>
constexpr std::size_t expected_peak(std::size_t stage, std::size_t stages, std::size_t micro_batches) {
  if constexpr (std::is_same_v<S, one_f_one_b>) return std::min(micro_batches, stages - stage);
  return micro_batches;
}

/// Follows the program and keeps each slot's owner: a slot has one owner at a time, and as many slots as in flight.
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct slots_are_exclusive {
  static constexpr bool holds() {
    using table = pl::schedule_table<S, Stages, MicroBatches>;
    for (std::size_t s = 0; s < Stages; ++s) {
      if (table::peak_in_flight(s) != expected_peak<S>(s, Stages, MicroBatches)) return false;
      bool taken[MicroBatches] = {};
      std::size_t in_flight = 0;
      std::size_t most = 0;
      for (pl::action const& a : table::actions(s)) {
        if (!pl::is_compute(a.kind)) continue;
        std::size_t const slot = table::slot_of(s, a.micro_batch);
        if (slot >= table::peak_in_flight(s)) return false;
        bool const opens = a.kind == pl::action_kind::forward;
        if (taken[slot] == opens) return false;
        taken[slot] = opens;
        in_flight += opens ? 1 : std::size_t{0} - 1;
        most = std::max(most, in_flight);
      }
      if (most != table::peak_in_flight(s) || in_flight != 0) return false;
    }
    return true;
  }
};
static_assert(grid::for_all<slots_are_exclusive, gpipe>());
static_assert(grid::for_all<slots_are_exclusive, one_f_one_b>());

// PTD-086: GPipe with p = 8, m = 64 keeps all 64 micro-batches.
static_assert(pl::schedule_table<gpipe, 8, 64>::peak_in_flight(0) == 64);
static_assert(pl::schedule_table<one_f_one_b, 8, 64>::peak_in_flight(0) == 8);
static_assert(pl::schedule_table<one_f_one_b, 8, 64>::peak_in_flight(7) == 1);

/// Independent of assign_slots: the sends that lie in an action's slot, found by looking back through the program.
template <class S, std::size_t Stages, std::size_t MicroBatches>
bool waits_match() {
  using table = pl::schedule_table<S, Stages, MicroBatches>;
  bool right = true;
  for (std::size_t s = 0; s < Stages; ++s) {
    auto const list = table::actions(s);
    for (std::size_t i = 0; i < list.size(); ++i) {
      bool const forward = list[i].kind == pl::action_kind::forward;
      std::size_t expected = 0;
      if (forward || list[i].kind == pl::action_kind::backward) {
        auto const send = forward ? pl::action_kind::send_activation : pl::action_kind::send_gradient;
        std::size_t sends = 0;
        for (std::size_t k = 0; k < i; ++k) {
          if (list[k].kind != send) continue;
          ++sends;
          if (table::slot_of(s, list[k].micro_batch) == table::slot_of(s, list[i].micro_batch)) expected = sends;
        }
      }
      right = right && table::sends_taken_before(s, i) == expected;
    }
  }
  return right;
}

}  // namespace

TEST_CASE("a buffer is written again only when its last send has been taken") {
  CHECK(waits_match<one_f_one_b, 4, 9>());
  CHECK(waits_match<gpipe, 4, 9>());
  CHECK(waits_match<one_f_one_b, 4, 2>());
  using table = pl::schedule_table<one_f_one_b, 2, 3>;
  // Stage 1 has one slot, so each backward waits for the gradient before it.
  auto const list = table::actions(1);
  for (std::size_t i = 0; i < list.size(); ++i)
    CHECK(table::sends_taken_before(1, i) == (list[i].kind == pl::action_kind::backward ? list[i].micro_batch : 0));
}

}  // namespace slots_test
