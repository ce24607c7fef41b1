// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/models/gpt2.hpp>

#include "captured_models.hpp"
#include "mixed_models.hpp"

namespace model_mixed_cpp {

using namespace heddle;

using model = gpt2<gpt2_config{
    .vocabulary = 11, .context = 5, .layers = 2, .heads = 2, .width = 6, .tied = true, .dropout = 0.1}>;
/// Gradients of the two micro-batches are added up in float.
struct in_bf16 : plan<micro_batch<2>, accumulate<2>, precision<bf16_mixed>> {};
/// The first step overflows, and the scale then fits.
inline constexpr precision_policy overflowing = [] {
  precision_policy p = fp16_mixed;
  p.scale.initial = p.scale.most;
  p.scale.backoff = 0x1p-12;
  return p;
}();
struct in_fp16 : plan<micro_batch<2>, precision<overflowing>> {};

}  // namespace model_mixed_cpp

using namespace model_mixed_cpp;

TEST_CASE("a GPT-2 in bf16_mixed trains on a device as on the host") {
  emulation::mixed_run const host = emulation::check_mixed_model<model, in_bf16>({0, 3});
  CHECK(!host.step[0].skipped);
}
TEST_CASE("a GPT-2 in fp16_mixed skips a step that overflows on a device as on the host") {
  emulation::mixed_run const host = emulation::check_mixed_model<model, in_fp16>({0, 3});
  CHECK(host.step[0].skipped);
  CHECK(!host.step[1].skipped);
  CHECK(host.step[1].loss_scale == 4096);
}
TEST_CASE("a step that overflows in a replayed graph is skipped, and changes no bit") {
  emulation::stepped_run const run = emulation::check_captured<model, in_fp16>({0, 3});
  for (std::size_t s = 0; s < emulation::captured_steps; ++s)
    CHECK(run.step[s].skipped == (s == 0 || s == emulation::overflowing_step));
}
