// SPDX-License-Identifier: Apache-2.0
// Precision policies as values, the loss scale's rule, and what a policy makes of a plan's bytes: the rows
// `mixed_precision` and the bytes per parameter of `zero` in shared/paper-values.csv.
#include <doctest/doctest.h>

#include <heddle/layout/layout_of.hpp>
#include <heddle/plan/zero_estimates.hpp>

#include "paper.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace precision_test {
namespace {

// What is left out follows from what stands before it.
static_assert(fp64.master == dtype::float64 && fp64.loss == dtype::float64 && fp32 == precision_policy{});
static_assert(tf32.storage == dtype::float32 && tf32.compute == dtype::tfloat32 && tf32.master == dtype::float32);
static_assert(bf16_mixed.gradient == dtype::bfloat16 && bf16_mixed.reduction == dtype::bfloat16 &&
              bf16_mixed.master == dtype::float32 && bf16_mixed.norms == dtype::float32 &&
              bf16_mixed.loss == dtype::float32 && !bf16_mixed.scale.adapts());
static_assert(fp16_mixed.scale.adapts() && fp16_mixed.scale.initial == 65536);

// MPR-001, 003, 005: the largest fp16, its smallest normal number, and the step of bf16 at 1.
constexpr double largest(int exponent, std::size_t bits) {
  double power = 1;
  for (int i = 0; i < exponent; ++i) power *= 2;
  double step = 1;
  for (std::size_t i = 0; i < bits; ++i) step /= 2;
  return power * (2 - step);
}
static_assert(largest(15, fraction_bits(dtype::float16)) == 65504);
static_assert(1.0 / (1 << 14) == 6.103515625e-05 && fraction_bits(dtype::bfloat16) == 7 && 1.0 / (1 << 7) == 0.0078125);
// MPR-009: a gradient of 1 overflows at a scale above 65504, so at the first of dynamic_loss_scale.
static_assert(dynamic_loss_scale.initial > largest(15, fraction_bits(dtype::float16)));

// The scale's rule.
constexpr loss_scale_policy quick{
    .initial = 1024, .growth = 2, .backoff = 0.5, .interval = 3, .hysteresis = 2, .least = 256, .most = 2048};
constexpr loss_scale_state after(char const* steps) {  // '+' is finite, '-' overflows
  loss_scale_state s = first_state(quick);
  for (; *steps != 0; ++steps) s = after_step(quick, s, *steps == '-');
  return s;
}
static_assert(after("").scale == 1024 && after("++").scale == 1024 && after("+++").scale == 2048);
static_assert(after("++++++").scale == 2048);                         // not above the most
static_assert(after("++-++").scale == 1024);                          // finite in a row
static_assert(after("-").scale == 1024 && after("--").scale == 512);  // two overflows, in a row or not
static_assert(after("-++-").scale == 512 && after("---").scale == 256 && after("-----").scale == 256);
static_assert(after("-+++-").scale == 2048);  // when it grows, overflows are counted anew
static_assert(after("-+-+-") == loss_scale_state{.scale = 256, .finite_steps = 0, .overflows = 3, .skipped = 3});
static_assert(after_step(no_loss_scale, first_state(no_loss_scale), false).scale == 1);

// ZER-001, 002 in the ledger: 2 + 2 + 4 + 4 + 4 bytes for each parameter, of which ZeRO's stages split what they do,
// and what travels has 2. Every size of this model is a multiple of 4 ranks times a cache line of the narrowest type.
using model = gpt2<gpt2_config{.vocabulary = 256, .context = 64, .layers = 3, .heads = 4, .width = 128, .tied = false}>;
constexpr std::size_t ranks = 4, psi = parameters_of<model>;
template <std::size_t Stage, class... More>
struct mixed : plan<mesh<axis<dp, ranks>>, zero<Stage>, precision<bf16_mixed>, More...> {};
template <std::size_t Stage, class... More>
using ledger_of = basic_ledger<on<model, mixed<Stage, More...>>>;
template <std::size_t Stage, class... More>
constexpr std::size_t bytes(memory_category c) {
  return ledger_of<Stage, More...>::memory(0).of(c);
}
template <std::size_t Stage>
constexpr bool rests_as_the_paper_says() {
  constexpr state_bytes parameter_only{mixed_precision_adam.parameter, 0, 0},
      state_only{0, 0, mixed_precision_adam.optimizer};
  return static_cast<double>(bytes<Stage>(memory_category::parameters)) ==
             zero_bytes(Stage, psi, ranks, parameter_only) &&
         static_cast<double>(bytes<Stage>(memory_category::optimizer_state)) ==
             zero_bytes(Stage, psi, ranks, state_only);
}
static_assert(rests_as_the_paper_says<0>() && rests_as_the_paper_says<1>());
static_assert(rests_as_the_paper_says<2>() && rests_as_the_paper_says<3>());
static_assert(bytes<0>(memory_category::gradients) == 2 * psi);
static_assert(bytes<0>(memory_category::parameters) + bytes<0>(memory_category::gradients) +
                  bytes<0>(memory_category::optimizer_state) ==
              16 * psi);
// Gradients that are added up over micro-batches are sums of many, in 4 bytes, beside those of one unit (a layer) in 2.
constexpr std::size_t largest_unit = 12 * 128 * 128 + 13 * 128;
static_assert(bytes<0, accumulate<2>>(memory_category::gradients) == 4 * psi + 2 * largest_unit);
static_assert(bytes<2>(memory_category::gradients) == 2 * (psi / ranks + largest_unit));
static_assert(bytes<2, accumulate<2>>(memory_category::gradients) == 4 * psi / ranks + 2 * largest_unit);

// The lines say which type each has.
template <class Ledger>
constexpr std::string_view type_of(std::string_view what) {
  for (memory_row const& row : Ledger::rows(0))
    if (row.what == what && row.bytes != 0) return row.element;
  return "";
}
static_assert(type_of<ledger_of<3>>("at rest") == "bf16" && type_of<ledger_of<3>>("reduced") == "bf16");
static_assert(type_of<ledger_of<3>>("master weights") == "fp32" && type_of<ledger_of<3>>("first moment") == "fp32");
static_assert(type_of<ledger_of<0, accumulate<2>>>("accumulated") == "fp32");
static_assert(type_of<ledger_of<0>>("gradients on their way") == "bf16");
// … and what has how many bytes, as often as the schedule has it at once: of two stages the first has two of the four
// micro-batches in flight, and the second one. Between them goes one value of rows x tokens x width.
using deep_model =
    gpt2<gpt2_config{.vocabulary = 256, .context = 64, .layers = 4, .heads = 4, .width = 128, .tied = false}>;
struct staged : plan<mesh<axis<pp, 2>>, precision<bf16_mixed>, accumulate<4>, micro_batch<2>, pipeline<one_f_one_b>> {};
constexpr memory_row row_of(std::size_t stage, std::string_view what) {
  for (memory_row const& row : basic_ledger<on<deep_model, staged>>::rows(stage))
    if (row.what == what) return row;
  return {};
}
constexpr bool has(std::size_t stage, std::string_view what, std::size_t bytes_of_one, std::size_t times) {
  memory_row const row = row_of(stage, what);
  return row.bytes == bytes_of_one && row.times == times;
}
constexpr std::size_t boundary = 2 * 64 * 128 * 2;
static_assert(has(0, "stage's input until its backward", 0, 2) &&
              has(1, "stage's input until its backward", boundary, 1));
static_assert(has(0, "stage's output until its backward", boundary, 2));
static_assert(has(1, "input's gradient until it is sent", boundary, 1));
static_assert(has(0, "output's gradient during backward", boundary, 1));
static_assert(has(0, "ids of a step", 4 * 2 * 64 * 4, 1) && has(1, "targets of a step", 4 * 2 * 64 * 4, 1));
static_assert(row_of(0, "at rest").bytes + row_of(1, "at rest").bytes == 2 * parameters_of<deep_model>);
constexpr bool state_is_of_four_bytes(std::size_t stage) {
  std::size_t const elements = row_of(stage, "at rest").bytes / 2;
  return has(stage, "master weights", 4 * elements, 1) && has(stage, "first moment", 4 * elements, 1) &&
         has(stage, "second moment", 4 * elements, 1);
}
static_assert(state_is_of_four_bytes(0) && state_is_of_four_bytes(1));
static_assert(row_of(0, "saved by modules until their backward").times == 2 &&
              row_of(1, "saved by modules until their backward").times == 1);
// [own]
constexpr precision_policy reduced_wide = [] {
  precision_policy p = bf16_mixed;
  p.reduction = dtype::float32;
  return p;
}();
struct reducing_wide : plan<mesh<axis<dp, ranks>>, precision<reduced_wide>> {};
// [/own]
static_assert(type_of<basic_ledger<on<model, reducing_wide>>>("gradients on their way") == "fp32");
// One policy of another optimizer state: nothing but the state changes.
constexpr precision_policy wide_master = [] {
  precision_policy p = bf16_mixed;
  p.master = dtype::float64;
  return p;
}();
struct with_wide_master : plan<mesh<axis<dp, ranks>>, precision<wide_master>> {};
static_assert(basic_ledger<on<model, with_wide_master>>::memory(0).of(memory_category::optimizer_state) == 24 * psi);
static_assert(basic_ledger<on<model, with_wide_master>>::memory(0).of(memory_category::parameters) == 2 * psi);

// ZER-006, 007, 009: 2, 2 and 3 psi elements times (n-1)/n, of 2 bytes. What is reduced in fp32 has 4, what is
// gathered 2.
template <class Ledger>
constexpr std::size_t sent() {
  return Ledger::traffic({0}).bytes() -
         (comm::all_reduce_sent(1, ranks, 0) + comm::all_reduce_sent(step_scalars, ranks, 0)) * sizeof(double);
}
constexpr std::size_t share = psi * (ranks - 1) / ranks;
static_assert(sent<ledger_of<0>>() == 2 * share * 2 && sent<ledger_of<1>>() == 2 * share * 2);
static_assert(sent<ledger_of<2>>() == 2 * share * 2 && sent<ledger_of<3>>() == 3 * share * 2);
struct wide_at_stage_3 : plan<mesh<axis<dp, ranks>>, zero<3>, precision<reduced_wide>> {};
static_assert(sent<basic_ledger<on<model, wide_at_stage_3>>>() == 2 * share * 2 + share * 4);

}  // namespace

TEST_CASE("LS-2: a scale goes down to where nothing overflows, and from there tries twice as much now and then") {
  constexpr loss_scale_policy p{.initial = 65536, .growth = 2, .backoff = 0.5, .interval = 100, .most = 16777216};
  loss_scale_state s = first_state(p);
  // 65536, 32768, 16384 and 8192 overflow; then 100 steps at 4096 and one at 8192, again and again.
  for (int step = 0; step < 4 + 50 * 101; ++step) s = after_step(p, s, s.scale > 4096);
  CHECK(s == loss_scale_state{.scale = 4096, .finite_steps = 0, .overflows = 1, .skipped = 54});
}
}  // namespace precision_test
