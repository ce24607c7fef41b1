// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/models/gpt2.hpp>
#include <heddle/models/with_frozen.hpp>

#include "captured_models.hpp"
#include "models.hpp"

namespace model_gpt2_cpp {

using namespace heddle;

using model = gpt2<gpt2_config{
    .vocabulary = 11, .context = 5, .layers = 2, .heads = 2, .width = 6, .tied = true, .dropout = 0.1}>;
/// The loss in chunks of three of a micro-batch's ten tokens.
struct chunked : plan<micro_batch<2>, accumulate<2>, precision<fp64>, logit_chunk<264>> {};
using tuned =
    with_frozen<gpt2<gpt2_config{.vocabulary = 7, .context = 3, .layers = 2, .heads = 1, .width = 4, .tied = false}>,
                "wte", "h.attn", "h.ln_1">;
struct plain : plan<micro_batch<2>, precision<fp64>> {};

}  // namespace model_gpt2_cpp

using namespace model_gpt2_cpp;

TEST_CASE("a GPT-2 with dropout and a tied head trains on a device as on the host, its loss in chunks") {
  emulation::check_model<model, chunked>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}
TEST_CASE("a GPT-2 of which parts are frozen trains on a device as on the host") {
  emulation::check_model<tuned, plain>({0, 1, 2, 3});
}
TEST_CASE("steps that are captured and replayed are the steps, to the bit: masks, clipping, rates, updates' count") {
  emulation::stepped_run const run = emulation::check_captured<model, chunked>({0, 3});
  CHECK(run.step.back().gradient_norm > 0.5);  // clipped
}
