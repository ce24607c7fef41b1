// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstddef>
#include <string>

#include <heddle/pipeline/schedule_table.hpp>
#include "grid.hpp"

namespace schedules_test {

namespace pl = heddle::schedules;
using heddle::gpipe;
using heddle::one_f_one_b;

// Truth table of the concept.
namespace {
struct writes_nothing {};
struct wrong_signature {
  static constexpr void order(std::size_t, std::size_t, pl::compute_order&) {}
};
struct writes_twice : gpipe {
  static constexpr void program(std::size_t, std::size_t, std::size_t, pl::program_order&) {}
};
struct only_even {
  static constexpr bool accepts(std::size_t, std::size_t micro_batches) { return micro_batches % 2 == 0; }
  static constexpr void order(std::size_t stage, std::size_t stages, std::size_t micro_batches,
                              pl::compute_order& out) {
    gpipe::order(stage, stages, micro_batches, out);
  }
};
}  // namespace
static_assert(heddle::Schedule<gpipe> && heddle::Schedule<one_f_one_b> && heddle::Schedule<only_even>);
static_assert(!heddle::Schedule<int> && !heddle::Schedule<writes_nothing> && !heddle::Schedule<wrong_signature>);
static_assert(!heddle::Schedule<writes_twice>);
static_assert(heddle::SoundSchedule<only_even, 2, 4> && !heddle::SoundSchedule<only_even, 2, 3>);
static_assert(!heddle::SoundSchedule<gpipe, 0, 4> && !heddle::SoundSchedule<gpipe, 2, 0> &&
              !heddle::SoundSchedule<int, 2, 4>);

// PS-1: every schedule ends, also with fewer micro-batches than stages.
template <class S, std::size_t Stages, std::size_t MicroBatches>
struct is_sound {
  static constexpr bool holds() { return heddle::SoundSchedule<S, Stages, MicroBatches>; }
};
static_assert(grid::for_all<is_sound, gpipe>());
static_assert(grid::for_all<is_sound, one_f_one_b>());

namespace {

/// "F0 B0 …" with `>` and `<` for activations sent and received, `]` and `[` for gradients, R and S.
std::string text_of(std::span<pl::action const> list) {
  std::string out;
  for (pl::action const& a : list) {
    constexpr char const* letters[pl::action_kinds] = {"F", "B", "I", "W", ">", "<", "]", "[", "R", "S"};
    if (!out.empty()) out += ' ';
    out += letters[static_cast<std::size_t>(a.kind)];
    if (a.kind != pl::action_kind::reduce_gradients && a.kind != pl::action_kind::step)
      out += std::to_string(a.micro_batch);
  }
  return out;
}

template <class S, std::size_t Stages, std::size_t MicroBatches>
std::string text_of(std::size_t stage) {
  return text_of(pl::schedule_table<S, Stages, MicroBatches>::actions(stage));
}

}  // namespace

TEST_CASE("GPipe runs all forwards, then all backwards in reverse") {
  CHECK(text_of<gpipe, 1, 3>(0) == "F0 F1 F2 B2 B1 B0 R S");
  CHECK(text_of<gpipe, 2, 2>(0) == "F0 >0 F1 >1 [1 B1 [0 B0 R S");
  CHECK(text_of<gpipe, 2, 2>(1) == "<0 F0 <1 F1 B1 ]1 B0 ]0 R S");
}

TEST_CASE("1F1B alternates after a warm-up of the stages that follow") {
  CHECK(text_of<one_f_one_b, 1, 2>(0) == "F0 B0 F1 B1 R S");
  // Figure 4 (top) of arXiv 2104.04473: p = 4, m = 8.
  auto const computes = [](auto const& list) {
    std::string out;
    for (pl::action const& a : list)
      if (pl::is_compute(a.kind))
        out += (a.kind == pl::action_kind::forward ? "F" : "B") + std::to_string(a.micro_batch);
    return out;
  };
  using table = pl::schedule_table<one_f_one_b, 4, 8>;
  CHECK(computes(table::actions(0)) == "F0F1F2F3B0F4B1F5B2F6B3F7B4B5B6B7");
  CHECK(computes(table::actions(1)) == "F0F1F2B0F3B1F4B2F5B3F6B4F7B5B6B7");
  CHECK(computes(table::actions(2)) == "F0F1B0F2B1F3B2F4B3F5B4F6B5F7B6B7");
  CHECK(computes(table::actions(3)) == "F0B0F1B1F2B2F3B3F4B4F5B5F6B6F7B7");
}

TEST_CASE("1F1B bounds its warm-up by the micro-batches (PS-1)") {
  CHECK(text_of<one_f_one_b, 4, 1>(0) == "F0 >0 [0 B0 R S");
  CHECK(text_of<one_f_one_b, 4, 2>(0) == "F0 >0 F1 >1 [0 B0 [1 B1 R S");
  CHECK(text_of<one_f_one_b, 4, 2>(1) == "<0 F0 >0 <1 F1 >1 [0 B0 ]0 [1 B1 ]1 R S");
  CHECK(text_of<one_f_one_b, 4, 2>(3) == "<0 F0 B0 ]0 <1 F1 B1 ]1 R S");
}

TEST_CASE("a position asks stage and chunk for first and last (IV-2)") {
  pl::stage_position const last{3, 4, 2};
  CHECK_FALSE(last.is_last(0));
  CHECK(last.is_last(1));
  CHECK(last.has_peer_after(0));
  CHECK_FALSE(last.has_peer_after(1));
  CHECK(last.next() == 0);
  CHECK(last.previous() == 2);
  CHECK(last.virtual_stage(1) == 7);
  pl::stage_position const first{0, 4, 2};
  CHECK(first.is_first(0));
  CHECK_FALSE(first.is_first(1));
  CHECK(first.has_peer_before(1));
  CHECK(first.previous() == 3);
  pl::stage_position const plain{1, 4, 1};
  CHECK_FALSE(plain.is_last());
  CHECK(pl::stage_position{3, 4, 1}.is_last());
  CHECK_FALSE(pl::stage_position{0, 1, 2}.has_peer_after(0));
}

TEST_CASE("each action has its name") {
  CHECK(std::string(pl::name(pl::action_kind::forward)) == "forward");
  CHECK(std::string(pl::name(pl::action_kind::receive_gradient)) == "receive_gradient");
  CHECK(std::string(pl::name(pl::action_kind::step)) == "step");
}

}  // namespace schedules_test
