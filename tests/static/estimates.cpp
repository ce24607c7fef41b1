// SPDX-License-Identifier: Apache-2.0
// What docs/reference/estimates.md shows.
#include <doctest/doctest.h>

#include <heddle/heddle.hpp>

namespace estimates_test {

namespace hd = heddle;

namespace {

// [model]
using model = hd::gpt2<hd::gpt2_config{.layers = 24, .heads = 16, .width = 1024}>;
struct plan : hd::plan<hd::mesh<hd::axis<hd::dp, 8>>, hd::micro_batch<16>, hd::accumulate<4>, hd::zero<1>> {};
using ledger = hd::ledger<model, plan>;
// [/model]

// [flops]
constexpr hd::forward_flops forward = hd::flops_per_sequence<model>;  // by a walk over the model's modules
constexpr hd::gpt_sizes sizes{.layers = 24, .width = 1024, .vocabulary = 50257, .sequence = 1024};
static_assert(forward == hd::gpt_forward_flops(sizes));  // 24sh² + 4s²h for each layer, 2shV for the head
static_assert(hd::training_flops(forward) == 2'480'853'221'376);
static_assert(hd::training_flops(forward, hd::recomputed::layers) == 3'202'407'727'104);
// A rank's share of a step, padding included: 8 ranks work on 512 sequences.
constexpr auto of_rank = hd::flops_of_step<hd::resolved<model, plan, hd::host_backend>>(0);
static_assert(of_rank == 512 / 8 * hd::training_flops(forward));
// [/flops]

// [time]
constexpr hd::compute_devices a100{.count = 8, .flops_per_second = 312e12};
constexpr double step_flops = 512 * static_cast<double>(hd::training_flops(forward));
// A step that takes 1.2 s uses 42 % of the peak.
static_assert(hd::utilisation(step_flops, 1.2, a100) > 0.42 && hd::utilisation(step_flops, 1.2, a100) < 0.43);
// What it sends at 200 GB/s takes a few milliseconds, hidden or not.
constexpr auto sent = static_cast<double>(ledger::traffic(plan::mesh::value.coordinates_of(0)).bytes());
constexpr hd::step_seconds estimate = hd::estimate_step(of_rank, 312e12, sent, 200e9);
static_assert(estimate.in_turn - estimate.overlapped < 0.02);
// [/time]

// [memory]
// Mixed-precision Adam on 64 ranks: 16 bytes for each parameter, or 2 + 14/64.
static_assert(hd::zero_bytes(0, 7.5e9, 64) == 120e9);
static_assert(hd::zero_bytes(2, 7.5e9, 64) == 16.640625e9);
static_assert(hd::zero_largest_model(2, 32e9, 64) > 14.4e9);
// [/memory]

}  // namespace

TEST_CASE("estimates are constants") { CHECK(estimate.overlapped > 0); }

}  // namespace estimates_test
