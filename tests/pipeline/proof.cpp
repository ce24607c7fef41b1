// SPDX-License-Identifier: Apache-2.0
#include <heddle/pipeline/proof.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstddef>

#include <heddle/pipeline/fault_of.hpp>
#include "grid.hpp"

namespace proof_test {

// Each fact, on lists that keep it and on lists with one planted fault.
namespace {

namespace pl = heddle::schedules;
namespace proof = heddle::schedules::proof;
using kind = proof::fault_kind;
using enum pl::action_kind;
using pl::action;

template <std::size_t MicroBatches, std::size_t Chunks = 1, std::size_t N>
constexpr proof::fault judge(std::array<action, N> const& list, std::size_t stage = 0, std::size_t stages = 1) {
  if (proof::fault const f = proof::micro_batch_fault<MicroBatches, Chunks>(list, stage, stages)) return f;
  return proof::completion_fault(list, stage);
}
template <std::size_t MicroBatches, std::size_t Chunks = 1, class... Actions>
constexpr proof::fault alone(Actions... list) {
  return judge<MicroBatches, Chunks>(std::array<action, sizeof...(list)>{list...});
}
/// The same list for a stage with a neighbour on both sides.
template <std::size_t MicroBatches, class... Actions>
constexpr proof::fault middle(Actions... list) {
  return judge<MicroBatches>(std::array<action, sizeof...(list) + 2>{list..., action{reduce_gradients}, action{step}},
                             1, 3);
}

constexpr action f(std::uint32_t m, std::uint32_t c = 0) { return {forward, m, c}; }
constexpr action b(std::uint32_t m, std::uint32_t c = 0) { return {backward, m, c}; }
constexpr action bi(std::uint32_t m) { return {backward_input, m, 0}; }
constexpr action bw(std::uint32_t m) { return {backward_weight, m, 0}; }
constexpr action sa(std::uint32_t m, std::uint32_t c = 0) { return {send_activation, m, c}; }
constexpr action ra(std::uint32_t m, std::uint32_t c = 0) { return {receive_activation, m, c}; }
constexpr action sg(std::uint32_t m, std::uint32_t c = 0) { return {send_gradient, m, c}; }
constexpr action rg(std::uint32_t m, std::uint32_t c = 0) { return {receive_gradient, m, c}; }
constexpr action reduce{reduce_gradients};
constexpr action end{step};

// Sound lists.
static_assert(!alone<1>(f(0), b(0), reduce, end));
static_assert(!alone<2>(f(0), f(1), b(1), b(0), reduce, end));
static_assert(!middle<1>(ra(0), f(0), sa(0), rg(0), b(0), sg(0)));
static_assert(!middle<1>(rg(0), ra(0), f(0), sa(0), bi(0), sg(0), bw(0)));
static_assert(!middle<1>(ra(0), f(0), sa(0), rg(0), bi(0), bw(0), sg(0)));

// Every micro-batch, once, in order.
static_assert(alone<2>(f(0), b(0), reduce, end) == proof::fault{kind::forward_not_once, 0, 1, 0});
static_assert(alone<2>(f(0), f(1), f(0), b(0), b(1), reduce, end) == proof::fault{kind::forward_not_once, 0, 0, 0});
static_assert(alone<2>(f(0), f(1), b(0), reduce, end) == proof::fault{kind::backward_not_once, 0, 1, 0});
static_assert(alone<1>(f(0), b(0), b(0), reduce, end).kind == kind::backward_not_once);
static_assert(alone<2>(f(0), f(1), b(1), b(2), reduce, end) == proof::fault{kind::out_of_range, 0, 2, 0});
static_assert(alone<1>(f(0), f(0, 1), b(0), reduce, end) == proof::fault{kind::out_of_range, 0, 0, 1});
static_assert(alone<1>(b(0), f(0), reduce, end).kind == kind::backward_before_forward);
static_assert(alone<1>(bi(0), f(0), bw(0), reduce, end).kind == kind::backward_before_forward);
static_assert(alone<1>(f(0), bw(0), bi(0), reduce, end).kind == kind::weight_before_input);

// PS-2: a whole backward and the two parts of a split one count alike, in any order of the micro-batches.
static_assert(!alone<4>(f(0), f(1), f(2), f(3), b(0), bi(1), b(2), bi(3), bw(3), bw(1), reduce, end));
static_assert(!alone<4>(f(3), f(2), bi(2), f(1), b(3), f(0), bi(0), bw(0), b(1), bw(2), reduce, end));
static_assert(alone<4>(f(0), f(1), f(2), f(3), b(0), bi(1), b(2), bi(3), bw(3), reduce, bw(1), end) ==
              proof::fault{kind::reduction_too_early, 0, 1, 0});
static_assert(alone<4>(f(0), f(1), f(2), f(3), bi(1), bi(3), bw(3), bw(1), b(0), reduce, b(2), end) ==
              proof::fault{kind::reduction_too_early, 0, 2, 0});
static_assert(alone<4>(f(0), f(1), f(2), f(3), b(0), bi(1), b(2), bi(3), bw(3), reduce, end) ==
              proof::fault{kind::backward_not_once, 0, 1, 0});
static_assert(alone<1>(f(0), b(0), bw(0), reduce, end).kind == kind::backward_not_once);
static_assert(alone<1>(f(0), bi(0), b(0), reduce, end).kind == kind::backward_not_once);

// Transfers.
static_assert(middle<1>(ra(0), f(0), rg(0), b(0), sg(0)).kind == kind::transfer_not_once);
static_assert(middle<1>(ra(0), f(0), sa(0), rg(0), b(0)).kind == kind::transfer_not_once);
static_assert(middle<1>(ra(0), f(0), sa(0), sa(0), rg(0), b(0), sg(0)).kind == kind::transfer_not_once);
static_assert(middle<1>(ra(0), ra(0), f(0), sa(0), rg(0), b(0), sg(0)).kind == kind::transfer_not_once);
static_assert(middle<1>(f(0), ra(0), sa(0), rg(0), b(0), sg(0)).kind == kind::computed_before_received);
static_assert(middle<1>(ra(0), f(0), sa(0), b(0), rg(0), sg(0)).kind == kind::computed_before_received);
static_assert(middle<1>(ra(0), sa(0), f(0), rg(0), b(0), sg(0)).kind == kind::sent_before_computed);
static_assert(middle<1>(ra(0), f(0), sa(0), rg(0), sg(0), b(0)).kind == kind::sent_before_computed);
static_assert(alone<1>(f(0), sa(0), b(0), reduce, end).kind == kind::transfer_without_peer);
static_assert(judge<1>(std::array{ra(0), f(0), sa(0), rg(0), b(0), reduce, end}, 0, 2).kind ==
              kind::transfer_without_peer);
static_assert(judge<1>(std::array{ra(0), f(0), rg(0), b(0), sg(0), reduce, end}, 1, 2).kind ==
              kind::transfer_without_peer);

// On one stage chunks hand over in place: in order there too.
static_assert(!alone<1, 2>(f(0), f(0, 1), b(0, 1), b(0), reduce, end));
static_assert(alone<1, 2>(f(0, 1), f(0), b(0, 1), b(0), reduce, end).kind == kind::computed_before_received);
static_assert(alone<1, 2>(f(0), f(0, 1), b(0), b(0, 1), reduce, end).kind == kind::computed_before_received);

// The end.
static_assert(alone<1>(f(0), b(0), end).kind == kind::step_not_once_at_end);
static_assert(alone<1>(f(0), b(0)).kind == kind::reduction_not_once);
static_assert(alone<1>(f(0), b(0), reduce, reduce, end).kind == kind::reduction_not_once);
static_assert(alone<1>(f(0), reduce, b(0), end).kind == kind::reduction_too_early);
static_assert(alone<1>(f(0), b(0), reduce).kind == kind::step_not_once_at_end);
static_assert(alone<1>(f(0), b(0), reduce, end, end).kind == kind::step_not_once_at_end);
static_assert(alone<1>(f(0), b(0), end, reduce).kind == kind::step_not_once_at_end);
static_assert(proof::completion_fault({}, 2) == proof::fault{kind::reduction_not_once, 2, 0, 0});

// Channels.
template <std::size_t N, std::size_t M>
constexpr proof::fault channel(std::array<action, N> const& from, std::array<action, M> const& to, pl::action_kind send,
                               pl::stage_position sender) {
  return proof::channel_fault(from, to, send, sender);
}
constexpr pl::stage_position first_of_two{0, 2, 1};
static_assert(!channel(std::array{f(0), sa(0), f(1), sa(1)}, std::array{ra(0), f(0), ra(1)}, send_activation,
                       first_of_two));
static_assert(channel(std::array{sa(0), sa(1)}, std::array{ra(1), ra(0)}, send_activation, first_of_two) ==
              proof::fault{kind::order_mismatch, 0, 0, 0});
static_assert(channel(std::array{sa(0), sa(1)}, std::array{ra(0)}, send_activation, first_of_two) ==
              proof::fault{kind::order_mismatch, 0, 1, 0});
static_assert(channel(std::array{sa(0)}, std::array{ra(0), ra(1)}, send_activation, first_of_two) ==
              proof::fault{kind::order_mismatch, 0, 1, 0});
static_assert(!channel(std::array{sg(1), sg(0)}, std::array{rg(1), rg(0)}, send_gradient, {1, 2, 1}));
static_assert(channel(std::array{sg(1), sg(0)}, std::array{rg(0), rg(1)}, send_gradient, {1, 2, 1}).kind ==
              kind::order_mismatch);
// Around the ring the chunk changes, and only there.
static_assert(!channel(std::array{sa(0, 0)}, std::array{ra(0, 1)}, send_activation, {1, 2, 2}));
static_assert(channel(std::array{sa(0, 0)}, std::array{ra(0, 0)}, send_activation, {1, 2, 2}).kind ==
              kind::order_mismatch);
static_assert(!channel(std::array{sg(0, 1)}, std::array{rg(0, 0)}, send_gradient, {0, 2, 2}));
static_assert(!channel(std::array{sg(0, 1)}, std::array{rg(0, 1)}, send_gradient, {1, 2, 2}));

// Whole schedules with a planted fault, and the place it is found at.
struct forgets_one {
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t m, pl::compute_order& out) {
    heddle::gpipe::order(stage, stages, stage == 1 ? m - 1 : m, out);
  }
};
struct backward_first {
  static constexpr void order(std::size_t stage, std::size_t, std::size_t m, pl::compute_order& out) {
    if (stage == 1) out.backward(0);
    for (std::size_t i = 0; i < m; ++i) out.forward(i);
    for (std::size_t i = stage == 1 ? 1 : 0; i < m; ++i) out.backward(i);
  }
};
struct reversed_on_one_stage {
  static constexpr void order(std::size_t stage, std::size_t, std::size_t m, pl::compute_order& out) {
    for (std::size_t i = 0; i < m; ++i) out.forward(stage == 1 ? m - 1 - i : i);
    for (std::size_t i = 0; i < m; ++i) out.backward(i);
  }
};
// Orders match, but stage 0 wants gradient 0 before it sends activation 1, and stage 1 activation 1 before gradient 0.
struct waits_in_a_circle {
  static constexpr void order(std::size_t stage, std::size_t, std::size_t m, pl::compute_order& out) {
    for (std::size_t i = 0; i < m; ++i) {
      out.forward(i);
      if (stage == 0) out.backward(i);
    }
    for (std::size_t i = 0; stage == 1 && i < m; ++i) out.backward(i);
  }
};
struct endless {
  static constexpr void order(std::size_t, std::size_t, std::size_t m, pl::compute_order& out) {
    for (std::size_t i = 0; i < 10 * m; ++i) out.forward(i % m);
  }
};
struct beyond_every_number {
  static constexpr void order(std::size_t, std::size_t, std::size_t, pl::compute_order& out) {
    out.forward(std::size_t{1} << 32);  // would be micro-batch 0 after a cast
    out.backward(std::size_t{1} << 32);
  }
};
template <class S>
inline constexpr proof::fault fault_in = pl::fault_of<S, 2, 3>;
static_assert(fault_in<forgets_one> == proof::fault{kind::forward_not_once, 1, 2, 0});
static_assert(fault_in<backward_first> == proof::fault{kind::backward_before_forward, 1, 0, 0});
static_assert(fault_in<reversed_on_one_stage> == proof::fault{kind::order_mismatch, 0, 0, 0});
static_assert(fault_in<waits_in_a_circle> == proof::fault{kind::deadlock, 0, 0, 0});
static_assert(fault_in<endless> == proof::fault{kind::forward_not_once, 0, 0, 0});
static_assert(pl::fault_of<beyond_every_number, 1, 1>.kind == kind::out_of_range);
static_assert(!pl::fault_of<waits_in_a_circle, 1, 3>);

// Transfers alone would let this end: stage 0 takes gradient (0, chunk 1) after F(2, chunk 1), which needs stage 1's
// F(2, chunk 0); but that stands behind B(1, chunk 1), which writes the buffer that gradient (0, chunk 1) is sent from.
struct waits_for_a_buffer {
  static constexpr std::size_t chunks = 2;
  static constexpr void order(std::size_t stage, std::size_t, std::size_t, pl::compute_order& out) {
    out.forward(0, 0);
    out.forward(1, 0);
    out.forward(0, 1);
    if (stage == 1) out.backward(0, 1);
    out.forward(1, 1);
    if (stage == 1) out.backward(1, 1);
    out.forward(2, 0);
    out.forward(2, 1);
    for (std::size_t m = stage == 1 ? 2 : 0; m < 3; ++m) out.backward(m, 1);
    for (std::size_t m = 0; m < 3; ++m) out.backward(m, 0);
  }
};
static_assert(fault_in<waits_for_a_buffer> == proof::fault{kind::deadlock, 0, 2, 1});

// A deadlock behind more actions than one link of the simulation runs: 1F1B that turns into a circle at its end.
struct waits_late {
  static constexpr void order(std::size_t stage, std::size_t, std::size_t m, pl::compute_order& out) {
    for (std::size_t i = 0; i + 2 < m; ++i) {
      out.forward(i);
      out.backward(i);
    }
    out.forward(m - 2);
    if (stage == 0) out.backward(m - 2);
    out.forward(m - 1);
    if (stage == 1) out.backward(m - 2);
    out.backward(m - 1);
  }
};
static_assert(pl::fault_of<waits_late, 2, 1200> == proof::fault{kind::deadlock, 0, 1198, 0});
static_assert(2 * 6 * 1200 > 2 * pl::detail::actions_a_link);

}  // namespace

TEST_CASE("facts are judged at run time as at compile time, for recorded traces") {
  std::array<action, 4> trace{f(0), b(0), reduce, end};
  CHECK_FALSE(static_cast<bool>(judge<1>(trace)));
  trace[1] = f(0);
  CHECK(judge<1>(trace).kind == kind::forward_not_once);
}

}  // namespace proof_test
