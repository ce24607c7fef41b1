// SPDX-License-Identifier: Apache-2.0
// Floating-point operations, utilisation and time: the rows `flops`, `mfu`, `step_time` and `train_time` of
// shared/paper-values.csv, and the rows of nanoGPT and llm.c that count operations. Where a row is of a GPT, the count
// is found by walking that GPT's own type; nothing is allocated.
#include <doctest/doctest.h>

#include <heddle/pipeline/analysis.hpp>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/plan/flop_formulas.hpp>
#include <heddle/plan/time_estimates.hpp>

#include "paper.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace paper_flops {
namespace {

constexpr double percent(double share) { return 100 * share; }
constexpr double days(double seconds) { return seconds / seconds_per_day; }

/// Heads change no count: 128 wide where the width allows, else all of it.
template <std::size_t L, std::size_t H, std::size_t V, std::size_t S>
inline constexpr forward_flops walked = flops_per_sequence<gpt<L, H, H % 128 == 0 ? H / 128 : 1, V, S>>;

// PTD-100, 101, PTD-002, ACT-037: the walk and the closed forms of the papers are the same integer, for a model of any
// sizes. The batch multiplies both.
template <std::size_t L, std::size_t H, std::size_t V, std::size_t S>
constexpr bool as_the_papers_count() {
  constexpr gpt_sizes g = letters<L, H, V, S>;
  constexpr forward_flops f = walked<L, H, V, S>;
  return f == gpt_forward_flops(g) &&                                 // of which:
         f.layers.total() == L * (24 * S * H * H + 4 * S * S * H) &&  // PTD-100, B = 1
         3 * f.ends.total() == 6 * S * H * V &&                       // PTD-101
         training_flops(f) == gpt_training_flops(g) &&                // ACT-037: 72 …
         training_flops(f) == 72 * L * S * H * H + 12 * L * S * S * H + 6 * S * H * V &&
         training_flops(f, recomputed::layers) == gpt_training_flops(g, recomputed::layers) &&  // PTD-002: 96 …
         training_flops(f, recomputed::layers) == 96 * L * S * H * H + 16 * L * S * S * H + 6 * S * H * V;
}
static_assert(as_the_papers_count<1, 8, 16, 4>() && as_the_papers_count<12, 768, 50257, 1024>());
static_assert(as_the_papers_count<105, 20480, 51200, 2048>() && as_the_papers_count<128, 25600, 51200, 2048>());

// Heads, biases, dropout and a tie change nothing.
constexpr gpt2_config plain{.vocabulary = 65, .context = 16, .layers = 3, .heads = 4, .width = 32};
constexpr gpt2_config other{.vocabulary = 65,
                            .context = 16,
                            .layers = 3,
                            .heads = 1,
                            .width = 32,
                            .biased = false,
                            .tied = false,
                            .dropout = 0.1};
static_assert(flops_per_sequence<gpt2<plain>> == flops_per_sequence<gpt2<other>>);
// Grouped-query attention saves products with parameters; SwiGLU's feed-forward has three matrices.
constexpr llama_config few_keys{
    .vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .kv_heads = 2, .width = 64, .mlp = 96};
static_assert(flops_per_sequence<llama<few_keys>> ==
              forward_flops{{2 * 2 * 16 * (2 * 64 * 64 + 2 * 64 * 16 + 3 * 64 * 96), 2 * 4 * 16 * 16 * 64},
                            {2 * 16 * 64 * 64, 0}});

// What the ranks of a plan compute together is what the model is, where every product is split.
struct split_up : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, micro_batch<3>, accumulate<4>> {};
constexpr gpt2_config even{.vocabulary = 64, .context = 16, .layers = 4, .heads = 4, .width = 32};
template <recomputed Again>
constexpr bool ranks_share = 4 * (flops_of_step<on<gpt2<even>, split_up>>(0, Again) +
                                  flops_of_step<on<gpt2<even>, split_up>>(1, Again)) ==
                             split_up::global_batch_size* training_flops(flops_per_sequence<gpt2<even>>, Again);
static_assert(ranks_share<recomputed::nothing> && ranks_share<recomputed::attention> &&
              ranks_share<recomputed::layers>);
// Padding is computed with: 65 columns of logits are stored as 66.
struct two : plan<mesh<axis<tp, 2>>> {};
static_assert(2 * flops_of_step<on<gpt2<plain>, two>>(0) ==
              training_flops(flops_per_sequence<gpt2<plain>>) + 6 * 16 * 32 * 1);

// A user's own module says what it computes.
struct counted_module : primitive {
  using parameters = parameter_list<>;
  template <class Input>
  using output = Input;
  template <class Place>
  struct kernel : kernel_traits {
    static constexpr flop_count flops{.products = 2 * Place::input_size};
  };
};
static_assert(forward_flops_of<repeat<dim<layers, 3>, counted_module>, on<gpt2<plain>, one_rank>::modules,
                               dims<dim<batch, 1>, dim<sequence, 16>>> == forward_flops{{2 * 16 * 3, 0}, {}});

/// Operations of a step of B sequences.
template <std::size_t L, std::size_t H, std::size_t V, std::size_t S>
constexpr double step(std::size_t batch_size, recomputed again) {
  return static_cast<double>(batch_size) * static_cast<double>(training_flops(walked<L, H, V, S>, again));
}
template <std::size_t L, std::size_t H>
constexpr double megatron_step(std::size_t batch_size) {
  return step<L, H, 51200, 2048>(batch_size, recomputed::layers);
}

// PTD-014, 016, 018, 020, 022 (arXiv 2104.04473 table 1, eq. 3).
static_assert(within_share(megatron_step<24, 2304>(512), 1.546683e16, 1e-6));
static_assert(within_share(megatron_step<36, 4096>(512), 6.718456e16, 1e-6));
static_assert(within_share(megatron_step<48, 8192>(1536), 1.021226e18, 1e-6));
static_assert(within_share(megatron_step<80, 12288>(2304), 5.641682e18, 1e-6));
static_assert(within_share(megatron_step<105, 20480>(2520), 2.221594e19, 1e-6));

// ACT-036, 038 (arXiv 2205.05198 §5, eq. 8 over eq. 7): selective recomputation costs 1.6 %. Eq. 8 adds three times
// attention's forward; one more forward of it, which is what recomputing comes to, adds a third of that.
constexpr gpt_sizes g530 = letters<105, 20480, 51200, 2048>;
constexpr double model_flops_530 = static_cast<double>(training_flops(walked<105, 20480, 51200, 2048>));
static_assert(within(percent(static_cast<double>(selective_hardware_flops(g530)) / model_flops_530 - 1), 1.6, 0.05));
static_assert(selective_hardware_flops(g530) ==
              72ULL * 105 * 2048 * 20480 * 20480 + 24ULL * 105 * 2048 * 2048 * 20480 + 6ULL * 2048 * 20480 * 51200);
static_assert(selective_hardware_flops(g530) - gpt_training_flops(g530) ==
              3 * (gpt_training_flops(g530, recomputed::attention) - gpt_training_flops(g530)));

// PRM-014, 016, 018, 020, 022, 024, 026, 028 (arXiv 2005.14165 table D.1): 6ND of 300e9 tokens.
constexpr double gpt3_days(double parameters) { return petaflops_days(dense_training_flops(parameters, 300e9)); }
static_assert(within_share(gpt3_days(125e6), 2.6, 0.005));
static_assert(within_share(gpt3_days(356e6), 7.42, 0.005));
static_assert(within_share(gpt3_days(760e6), 15.8, 0.005));
static_assert(within_share(gpt3_days(1320e6), 27.5, 0.005));
static_assert(within_share(gpt3_days(2650e6), 55.2, 0.005));
static_assert(within_share(gpt3_days(6660e6), 139, 0.005));
static_assert(within_share(gpt3_days(12850e6), 268, 0.005));
static_assert(within_share(gpt3_days(174600e6), 3640, 0.005));

// ACT-039, 051 (arXiv 2205.05198 table 5, §6.3): model FLOPs utilisation, by the walk.
constexpr compute_devices a100(double count) { return {.count = count, .flops_per_second = 312e12}; }
static_assert(within(percent(utilisation(step<48, 6144, 51200, 2048>(4, recomputed::nothing), 1.1, a100(8))), 41.5,
                     0.2));
static_assert(within(percent(utilisation(step<105, 20480, 51200, 2048>(2240, recomputed::nothing), 39.15, a100(2240))),
                     54.2, 0.06));
// ACT-043, 046, 049: hardware FLOPs utilisation, by eq. 8.
template <std::size_t L, std::size_t H>
constexpr double hardware_utilisation(double batch_size, double gpus, double seconds) {
  constexpr double sequence_flops = static_cast<double>(selective_hardware_flops(letters<L, H, 51200, 2048>));
  return percent(utilisation(batch_size * sequence_flops, seconds, a100(gpus)));
}
static_assert(within(hardware_utilisation<96, 12288>(64, 64, 13.75), 52.8, 0.07));
static_assert(within(hardware_utilisation<105, 20480>(280, 280, 37.83), 57.0, 0.07));
static_assert(within(hardware_utilisation<128, 25600>(512, 512, 71.49), 57.0, 0.07));
// ACT-041, 044, 047: the same model FLOPs in less time.
template <std::size_t L, std::size_t H>
constexpr double gain(std::size_t batch_size, double gpus, double before, double now) {
  constexpr auto again = recomputed::nothing;
  return percent(utilisation(step<L, H, 51200, 2048>(batch_size, again), now, a100(gpus)) /
                     utilisation(step<L, H, 51200, 2048>(batch_size, again), before, a100(gpus)) -
                 1);
}
static_assert(within(gain<48, 6144>(4, 8, 1.42, 1.1), 29.0, 0.15));
static_assert(within(gain<96, 12288>(64, 64, 18.13, 13.75), 31.8, 0.15));
static_assert(within(gain<105, 20480>(280, 280, 49.05, 37.83), 29.7, 0.15));

// PTD-044, 048, 052: a step of eq. 3's operations at the table's aggregate.
static_assert(within_share(compute_seconds(megatron_step<48, 8192>(1536), {1, 70.8e15}), 14.42, 0.005));
static_assert(within_share(compute_seconds(megatron_step<80, 12288>(2304), {1, 227.1e15}), 24.84, 0.005));
static_assert(within_share(compute_seconds(megatron_step<105, 20480>(2520), {1, 410.2e15}), 54.16, 0.005));

// PTD-098, 099 (arXiv 2104.04473 eq. 1): (b'/b + p − 1)(t_f + t_b) is what the simulation of the schedules comes to.
template <class Schedule, std::size_t Stages, std::size_t MicroBatches>
constexpr bool takes_as_long =
    static_cast<double>(schedules::schedule_analysis<Schedule, Stages, MicroBatches>::makespan) ==
    pipeline_seconds(MicroBatches, Stages, 1, 2);
static_assert(takes_as_long<one_f_one_b, 8, 32> && takes_as_long<one_f_one_b, 3, 5> && takes_as_long<gpipe, 4, 7>);
static_assert(schedules::schedule_analysis<one_f_one_b, 8, 128 / 4>::makespan == 117);
static_assert(pipeline_seconds(128 / 4, 8, 1, 2) == 117);
// GSH-026 (arXiv 2006.16668 table 3).
static_assert(within(days(training_seconds_of_steps(1e12, 1048576, 3.28)), 3.5, 0.15));

// PTD-003 (eq. 4), in numbers that are exact, and PTD-056 (§5.1).
static_assert(training_seconds(1024, 4096, {.count = 16, .flops_per_second = 64}) == 8.0 * 4096 * 1024 / (16 * 64));
static_assert(within(days(training_seconds(175e9, 300e9, {.count = 1024, .flops_per_second = 140e12})), 34, 0.5));
// PTD-058, 060, 062, 063, 065, 067, 069 (table 2): 300e9 tokens of eq. 3's operations.
template <std::size_t L, std::size_t H>
constexpr double table_2_days(double gpus, double flops_per_second) {
  return days(compute_seconds(300e9 / 2048 * megatron_step<L, H>(1), {gpus, flops_per_second}));
}
static_assert(within(table_2_days<96, 12288>(384, 144e12), 90, 1));
static_assert(within(table_2_days<96, 12288>(1536, 44e12), 74, 1));
static_assert(within(table_2_days<105, 20480>(1120, 98e12), 137, 1));
static_assert(within(table_2_days<105, 20480>(2240, 48e12), 140, 1));
static_assert(within(table_2_days<96, 12288>(768, 149e12), 43, 1));
static_assert(within(table_2_days<105, 20480>(560, 171e12), 156, 1));
static_assert(within(table_2_days<105, 20480>(2240, 159e12), 42, 1));

// NPT-002, 004, 006: nanoGPT's notebook. It has no biases, and PaLM's N is without the positions.
static_assert(flops_per_sequence<gpt2<gpt2_config{.biased = false}>>.total() == 291648307200);
constexpr gpt_sizes g124 = letters<12, 768, 50257, 1024>;
constexpr std::size_t nano_parameters = parameters_of<gpt2<gpt2_config{.biased = false}>>;
static_assert(1024 * palm_flops_per_token(g124, static_cast<double>(nano_parameters - 1024 * 768)) == 875062886400);
static_assert(within(days(compute_seconds(dense_training_flops(static_cast<double>(nano_parameters), 300e9),
                                          {.count = 8, .flops_per_second = 0.3 * 312e12})),
                     3.46, 0.005));
// LLC-028, 030, 032: llm.c counts the causal half of attention.
constexpr double llmc_flops(gpt_sizes const& g, std::size_t parameters) {
  return causal_flops_per_token(g, static_cast<double>(parameters));
}
static_assert(llmc_flops(g124, 124439808) == 6.0 * 124439808 + 6.0 * 12 * 768 * 1024);
static_assert(within(percent(utilisation(524288 * llmc_flops(g124, parameters_of<gpt2<gpt2_config{}>>), 0.3, a100(8))),
                     56.3, 0.1));
static_assert(within(percent(utilisation(1048576 * llmc_flops(letters<48, 1600, 50257, 1024>, 1557611200), 2.8,
                                         {.count = 8, .flops_per_second = 988.8e12})),
                     46.5, 0.1));

}  // namespace

TEST_CASE("a step lies between what hides and what does not") {
  step_seconds const s = estimate_step(6e12, 3e12, 5e9, 10e9);
  CHECK(s.overlapped == 2);
  CHECK(s.in_turn == 2.5);
  CHECK(estimate_step(1, 1, 4, 1).overlapped == 4);
}

}  // namespace paper_flops
