// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>

#include <heddle/pipeline/analysis.hpp>
#include "grid.hpp"

namespace custom_test {

// Schedules as a user writes them: the vocabulary must carry more than the two that come with the library.
namespace {

namespace pl = heddle::schedules;
using heddle::ratio;

// [minimal]
/// One micro-batch at a time: the layer-by-layer split without a pipeline.
struct one_at_a_time {
  static constexpr void order(std::size_t, std::size_t, std::size_t micro_batches,
                              heddle::schedules::compute_order& out) {
    for (std::size_t m = 0; m < micro_batches; ++m) {
      out.forward(m);
      out.backward(m);
    }
  }
};

using table = heddle::schedules::schedule_table<one_at_a_time, 4, 8>;  // proved here
static_assert(table::actions(0).size() == 4 * 8 + 2);  // forward, send, receive, backward; then reduce and step
static_assert(table::peak_in_flight(0) == 1);
static_assert(heddle::schedules::schedule_analysis<one_at_a_time, 4, 8>::bubble_of_total == heddle::ratio{3, 4});
// [/minimal]

/// Interleaved 1F1B (arXiv 2104.04473 §2.2.2): two chunks per stage, micro-batches in groups of the number of stages.
struct two_chunks {
  static constexpr std::size_t chunks = 2;
  static constexpr bool accepts(std::size_t stages, std::size_t micro_batches) { return micro_batches % stages == 0; }
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                              pl::compute_order& out) {
    std::size_t const units = micro_batches * chunks;
    std::size_t const before = (stages - 1 - stage) * 2 + (chunks - 1) * stages;
    std::size_t const warm_up = before < units ? before : units;
    auto const micro_batch = [stages](std::size_t k) { return k / (stages * chunks) * stages + k % stages; };
    auto const chunk = [stages](std::size_t k) { return k % (stages * chunks) / stages; };
    for (std::size_t k = 0; k < units + warm_up; ++k) {
      if (k < units) out.forward(micro_batch(k), chunk(k));
      if (k >= warm_up) out.backward(micro_batch(k - warm_up), chunks - 1 - chunk(k - warm_up));
    }
  }
};

template <std::size_t Stages, std::size_t MicroBatches>
constexpr bool interleaved_holds() {
  using a = pl::schedule_analysis<two_chunks, Stages, MicroBatches>;
  // PTD-076: (p-1)/(v·m) of ideal time, each chunk being a v-th of a stage.
  return a::bubble_of_ideal == ratio{Stages - 1, 2 * MicroBatches};
}
static_assert(interleaved_holds<2, 2>() && interleaved_holds<2, 6>() && interleaved_holds<3, 6>());
static_assert(interleaved_holds<4, 8>());  // PTD-088 is legal
static_assert(!heddle::SoundSchedule<two_chunks, 4, 6>);
static_assert(pl::schedule_table<two_chunks, 1, 3>::peak_in_flight(0) == 2);  // both chunks of one micro-batch
// ACT-059: p=4, v=2 holds L(1 + (p-1)/(pv)) layers of activations on the first stage: in chunks of L/(pv) layers, 11.
static_assert(pl::schedule_table<two_chunks, 4, 8>::peak_in_flight(0) == 11);

/// Split backwards: the stage before waits for the input's gradient alone, the weights' fill the drain (the idea of
/// ZB-H1, arXiv 2401.10241 §2.1).
struct split_drain {
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                              pl::compute_order& out) {
    std::size_t const after = stages - 1 - stage;
    std::size_t const warm_up = after < micro_batches ? after : micro_batches;
    for (std::size_t k = 0; k < micro_batches + warm_up; ++k) {
      if (k < micro_batches) out.forward(k);
      if (k >= warm_up) out.backward_input(k - warm_up);
      if (k >= warm_up + stage) out.backward_weight(k - warm_up - stage);
    }
    for (std::size_t m = micro_batches < stage ? 0 : micro_batches - stage; m < micro_batches; ++m)
      out.backward_weight(m);
  }
};
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct is_sound {
  static constexpr bool holds() { return heddle::SoundSchedule<S, Stages, MicroBatches>; }
};
static_assert(grid::for_all<is_sound, split_drain>());
static_assert(grid::for_all<is_sound, one_at_a_time>());
// ZB-H1: the bubble of each stage shrinks from (p-1)(F+B) to (p-1)(F+B_input-B_weight), here (p-1)·1 of the span.
static_assert(pl::schedule_analysis<split_drain, 4, 8>::makespan == 8 * 3 + 3 * (1 + 1 - 1));
static_assert(pl::schedule_table<split_drain, 4, 8>::peak_in_flight(0) == 4);
static_assert(pl::schedule_table<split_drain, 4, 8>::peak_in_flight(3) == 4);

// [complete]
/// A schedule that places its transfers itself: it receives the next input before it computes the current one.
struct receives_early {
  static constexpr void program(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                                heddle::schedules::program_order& out) {
    using enum heddle::schedules::action_kind;
    bool const first = stage == 0;
    bool const last = stage + 1 == stages;
    if (!first) out.emit(receive_activation, 0);
    for (std::size_t m = 0; m < micro_batches; ++m) {
      if (!first && m + 1 < micro_batches) out.emit(receive_activation, m + 1);
      out.emit(forward, m);
      if (!last) out.emit(send_activation, m);
    }
    for (std::size_t m = 0; m < micro_batches; ++m) {
      if (!last) out.emit(receive_gradient, m);
      out.emit(backward, m);
      if (!first) out.emit(send_gradient, m);
    }
    out.emit(reduce_gradients);
    out.emit(step);
  }
};
// [/complete]
static_assert(grid::for_all<is_sound, receives_early>());
// The early receive delays each stage by one forward: it waits for an input that it does not need yet.
static_assert(pl::schedule_analysis<receives_early, 4, 8>::makespan == (8 + 3) * 3 + 3);

struct one_stage_short : receives_early {
  static constexpr void program(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                                pl::program_order& out) {
    receives_early::program(stage, stages, micro_batches, out);
    if (stage == 1) out.emit(pl::action_kind::step);
  }
};
static_assert(pl::fault_of<one_stage_short, 2, 2> ==
              pl::proof::fault{pl::proof::fault_kind::step_not_once_at_end, 1, 0, 0});

/// The number of chunks alone decides between plain and ring: the last stage's first chunk sends on, its last does not.
TEST_CASE("exactly one stage and chunk holds the loss (IV-2)") {
  std::size_t losses = 0;
  using interleaved = pl::schedule_table<two_chunks, 4, 4>;
  for (std::size_t s = 0; s < interleaved::stages; ++s)
    for (std::size_t c = 0; c < interleaved::chunks; ++c) losses += interleaved::position(s).is_last(c) ? 1 : 0;
  CHECK(losses == 1);
  std::size_t sent_around = 0;
  for (pl::action const& a : interleaved::actions(3)) sent_around += a.kind == pl::action_kind::send_activation ? 1 : 0;
  CHECK(sent_around == 4);
}

}  // namespace
}  // namespace custom_test
