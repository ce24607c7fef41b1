// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/models/gpt2.hpp>
#include <heddle/models/with_frozen.hpp>

#include "captured_models.hpp"
#include "models.hpp"
#include "nvtx_tool.hpp"

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

[[maybe_unused]] auto* const attached = (InitializeInjectionNvtx2_fnptr = emulation::nvtx_tool::attach);

/// The ranges that three steps show a profiler; their trace's events go to `recorder`, if there is one.
std::vector<std::string> ranges_of_steps(bool capture, trace_recorder* recorder) {
  emulation::session const here;
  std::vector<std::string>& seen = emulation::nvtx_tool::seen;
  cuda::run_shared_device(1, 0, [&](cuda::shared_device_communicator& world) {
    mesh_communicator<chunked::mesh, cuda::shared_device_communicator> rank(world);
    basic_trainer<model, chunked, cuda_backend> run(rank, {.trace = recorder, .capture = capture});
    std::vector<std::int32_t> const ids(run.local_tokens, 1);
    seen.clear();
    for (int step = 0; step < 3; ++step) (void)run.step(ids, ids);
  });
  std::vector<std::string> ranges;
  for (std::string const& one : seen)
    if (one.starts_with("push ")) ranges.push_back(one.substr(5));
  return ranges;
}

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
TEST_CASE("a profiler sees a step as its trace has it, with a recorder or without") {
  for (bool const capture : {false, true}) {
    trace_recorder recorder(64);
    std::vector<std::string> const ranges = ranges_of_steps(capture, &recorder);
    std::vector<std::string> traced;
    for (trace_event const& event : recorder.events())
      traced.push_back(event.name + (event.number == trace_event::no_number ? "" : " " + std::to_string(event.number)));
    CHECK(recorder.left_out() == 0);
    CHECK(traced.size() > 6);
    CHECK(ranges == traced);
    CHECK(ranges_of_steps(capture, nullptr) == traced);
  }
}
