// SPDX-License-Identifier: Apache-2.0
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/schedule_table.hpp>

#include <cstddef>

using namespace heddle::schedules;

struct forgets_one {
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t m, compute_order& out) {
    heddle::gpipe::order(stage, stages, stage == 1 ? m - 1 : m, out);
  }
};
struct repeats_a_backward {
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t m, compute_order& out) {
    heddle::gpipe::order(stage, stages, m, out);
    if (stage == 0) out.backward_weight(2);
  }
};
struct backward_first {
  static constexpr void order(std::size_t, std::size_t, std::size_t m, compute_order& out) {
    for (std::size_t i = 0; i < m; ++i) out.backward(i);
    for (std::size_t i = 0; i < m; ++i) out.forward(i);
  }
};
struct weight_first {
  static constexpr void order(std::size_t, std::size_t, std::size_t m, compute_order& out) {
    for (std::size_t i = 0; i < m; ++i) out.forward(i);
    for (std::size_t i = 0; i < m; ++i) out.backward_weight(i);
    for (std::size_t i = 0; i < m; ++i) out.backward_input(i);
  }
};
struct counts_from_one {
  static constexpr void order(std::size_t, std::size_t, std::size_t m, compute_order& out) {
    for (std::size_t i = 1; i <= m; ++i) out.forward(i);
    for (std::size_t i = 1; i <= m; ++i) out.backward(i);
  }
};
struct reversed_on_one_stage {
  static constexpr void order(std::size_t stage, std::size_t, std::size_t m, compute_order& out) {
    for (std::size_t i = 0; i < m; ++i) out.forward(stage == 1 ? m - 1 - i : i);
    for (std::size_t i = 0; i < m; ++i) out.backward(i);
  }
};
struct waits_in_a_circle {
  static constexpr void order(std::size_t stage, std::size_t, std::size_t m, compute_order& out) {
    for (std::size_t i = 0; i < m; ++i) {
      out.forward(i);
      if (stage == 0) out.backward(i);
    }
    for (std::size_t i = 0; stage == 1 && i < m; ++i) out.backward(i);
  }
};

enum class slip {
  none,
  two_reduces,
  early_reduce,
  no_step,
  no_receive,
  late_receive,
  early_send,
  send_from_last,
  no_send,
};
// A complete program, right but for one slip on stage 1 of 2.
template <slip Slip>
struct complete {
  static constexpr void program(std::size_t stage, std::size_t, std::size_t m, program_order& out) {
    using enum action_kind;
    slip const here = stage == 1 ? Slip : slip::none;
    for (std::size_t i = 0; i < m; ++i) {
      if (stage == 1 && here != slip::late_receive && here != slip::no_receive) out.emit(receive_activation, i);
      if (here == slip::no_receive && i > 0) out.emit(receive_activation, i);
      out.emit(forward, i);
      if (here == slip::late_receive) out.emit(receive_activation, i);
      if (stage == 0 || here == slip::send_from_last) out.emit(send_activation, i);
    }
    if (here == slip::early_reduce) out.emit(reduce_gradients);
    for (std::size_t i = 0; i < m; ++i) {
      if (stage == 0) out.emit(receive_gradient, i);
      if (here == slip::early_send) out.emit(send_gradient, i);
      out.emit(backward, i);
      if (stage == 1 && here != slip::early_send && (here != slip::no_send || i != 1)) out.emit(send_gradient, i);
    }
    if (here != slip::early_reduce) out.emit(reduce_gradients);
    if (here == slip::two_reduces) out.emit(reduce_gradients);
    if (here != slip::no_step) out.emit(step);
  }
};
struct no_schedule {};
struct only_even {
  static constexpr bool accepts(std::size_t, std::size_t m) { return m % 2 == 0; }
  static constexpr void order(std::size_t s, std::size_t p, std::size_t m, compute_order& out) {
    heddle::gpipe::order(s, p, m, out);
  }
};
struct only_multiples : only_even {
  static constexpr bool accepts(std::size_t p, std::size_t m) { return m % p == 0; }
  template <std::size_t Stages, std::size_t MicroBatches>
  struct requirements {
    static_assert(MicroBatches % Stages == 0,
                  "only_multiples<Stages, MicroBatches>: 'MicroBatches' must be a multiple of Stages; round it up");
  };
};

#if defined(REJECT_NOT_A_SCHEDULE)  // expect: 'Schedule' must be a Schedule; declare
// shows: no_schedule
template struct heddle::schedules::schedule_table<no_schedule, 2, 3>;
#elif defined(REJECT_NO_STAGE)               // expect: 'Stages' must be at least 1
template struct heddle::schedules::schedule_table<heddle::gpipe, 0, 3>;
#elif defined(REJECT_NO_MICRO_BATCH)         // expect: 'MicroBatches' must be at least 1
template struct heddle::schedules::schedule_table<heddle::gpipe, 2, 0>;
#elif defined(REJECT_NOT_ACCEPTED)           // expect: 'Schedule' must be defined for this number of stages
// shows: only_even
template struct heddle::schedules::schedule_table<only_even, 2, 3>;
#elif defined(REJECT_OWN_RULE)               // expect: 'MicroBatches' must be a multiple of Stages; round it up
// shows: requirements<4
template struct heddle::schedules::schedule_table<only_multiples, 4, 6>;
#elif defined(REJECT_FORGOTTEN_MICRO_BATCH)  // expect: 'Schedule' must run the forward of every micro-batch exactly
// shows: at_stage<1
// shows: at_micro_batch<2
template struct heddle::schedules::schedule_table<forgets_one, 2, 3>;
#elif defined(REJECT_REPEATED_BACKWARD)  // expect: 'Schedule' must run the backward of every micro-batch exactly once
// shows: at_stage<0
// shows: at_micro_batch<2
template struct heddle::schedules::schedule_table<repeats_a_backward, 2, 3>;
#elif defined(REJECT_BACKWARD_FIRST)     // expect: 'Schedule' must run each backward after its forward
template struct heddle::schedules::schedule_table<backward_first, 1, 3>;
#elif defined(REJECT_WEIGHT_FIRST)       // expect: 'Schedule' must run each backward_weight after its backward_input
template struct heddle::schedules::schedule_table<weight_first, 2, 3>;
#elif defined(REJECT_OUT_OF_RANGE)       // expect: 'Schedule' must name micro-batches below MicroBatches
// shows: at_micro_batch<3
template struct heddle::schedules::schedule_table<counts_from_one, 2, 3>;
#elif defined(REJECT_ORDER_MISMATCH)     // expect: 'Schedule' must send and receive in the same order
// shows: at_stage<0
template struct heddle::schedules::schedule_table<reversed_on_one_stage, 2, 3>;
#elif defined(REJECT_DEADLOCK)           // expect: 'Schedule' must not let stages wait for each other
// shows: at_stage<0
// shows: at_micro_batch<0
template struct heddle::schedules::schedule_table<waits_in_a_circle, 2, 3>;
#elif defined(REJECT_TWO_REDUCES)        // expect: 'Schedule' must reduce gradients exactly once per stage
// shows: at_stage<1
template struct heddle::schedules::schedule_table<complete<slip::two_reduces>, 2, 3>;
#elif defined(REJECT_EARLY_REDUCE)       // expect: 'Schedule' must reduce gradients after the last weight gradient
template struct heddle::schedules::schedule_table<complete<slip::early_reduce>, 2, 3>;
#elif defined(REJECT_NO_STEP)            // expect: 'Schedule' must step exactly once, as the last action
template struct heddle::schedules::schedule_table<complete<slip::no_step>, 2, 3>;
#elif defined(REJECT_NO_RECEIVE)         // expect: 'Schedule' must receive what a forward or backward needs before it
// shows: at_micro_batch<0
template struct heddle::schedules::schedule_table<complete<slip::no_receive>, 2, 3>;
#elif defined(REJECT_LATE_RECEIVE)       // expect: 'Schedule' must receive what a forward or backward needs before it
template struct heddle::schedules::schedule_table<complete<slip::late_receive>, 2, 3>;
#elif defined(REJECT_EARLY_SEND)         // expect: 'Schedule' must compute what it sends before the send
template struct heddle::schedules::schedule_table<complete<slip::early_send>, 2, 3>;
#elif defined(REJECT_SEND_FROM_LAST)     // expect: 'Schedule' must not receive activations for the first layers
template struct heddle::schedules::schedule_table<complete<slip::send_from_last>, 2, 3>;
#elif defined(REJECT_NO_SEND)            // expect: 'Schedule' must send and receive each activation and each gradient
// shows: at_micro_batch<1
template struct heddle::schedules::schedule_table<complete<slip::no_send>, 2, 3>;
#else
template struct heddle::schedules::schedule_table<complete<slip::none>, 2, 3>;
static_assert(schedule_table<only_even, 2, 4>::actions(0).size() == 4 * 4 + 2);
static_assert(schedule_table<only_multiples, 4, 8>::peak_in_flight(0) == 8);
#endif
