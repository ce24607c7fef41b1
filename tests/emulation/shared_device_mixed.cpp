// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <doctest/doctest.h>

#include <chrono>
#include <heddle/layout/names.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/plan/zero.hpp>
#include <span>
#include <type_traits>
#include <vector>

#include "../comm/watchdog.hpp"
#include "mixed_models.hpp"

namespace shared_device_mixed_cpp {

using namespace heddle;

using model = gpt2<gpt2_config{
    .vocabulary = 11, .context = 4, .layers = 2, .heads = 2, .width = 8, .tied = true, .dropout = 0.1}>;
/// Gradients travel in bfloat16, are summed in float, and rounded once.
struct data_ranks : plan<mesh<axis<dp, 2>>, micro_batch<1>, precision<bf16_mixed>, zero<2>> {};
/// The first step's loss scale is too large for whoever has targets.
inline constexpr precision_policy overflowing = [] {
  precision_policy p = fp16_mixed;
  p.scale.initial = p.scale.most;
  p.scale.backoff = 0x1p-12;
  return p;
}();
struct in_fp16 : plan<mesh<axis<dp, 2>>, micro_batch<1>, precision<overflowing>, zero<1>> {};

/// Two steps, in the first of which only ranks of `overflow` have targets: it is skipped on both, and changes no bit.
void check_overflow(unsigned overflow, std::uint64_t seed) {
  emulation::session const here(
      {.mode = seed == 0 ? emulation::execution::eager : emulation::execution::delayed, .seed = seed});
  cuda::run_shared_device(2, 0, [&](cuda::shared_device_communicator& world) {
    mesh_communicator<in_fp16::mesh, cuda::shared_device_communicator> rank(world);
    using trainer = basic_trainer<model, in_fp16, cuda_backend>;
    trainer run(rank, {.seed = 3, .learning_rate = 0.05});
    auto const look = [&] {
      std::vector<std::vector<double>> all;
      for (std::size_t n = 0; n < run.parameter_count(); ++n) {
        emulation::mixed_parameter const one = emulation::look_at<cuda_backend>(run, n);
        for (auto const& part : {one.value, one.master, one.first, one.second}) all.push_back(part);
      }
      return all;
    };
    std::vector<std::int32_t> const ids(trainer::local_tokens, 3), none(trainer::local_tokens, ignored_target);
    auto const before = look();
    step_result const first = run.step(ids, (overflow >> run.data_rank() & 1U) != 0 ? ids : none);
    CHECK(first.skipped);
    CHECK(before == look());
    CHECK(run.loss_scale().scale == 4096);
    step_result const second = run.step(ids, ids);
    CHECK(!second.skipped);
    CHECK(before != look());
  });
}

}  // namespace shared_device_mixed_cpp

using namespace shared_device_mixed_cpp;

TEST_CASE("shared device: data ranks train in bf16_mixed under ZeRO-2 as on the host") {
  heddle::testing::watchdog const guard(std::chrono::seconds(300));
  emulation::check_mixed_model<model, data_ranks>({0, 3});
}
TEST_CASE("shared device: a step that overflows, on both data ranks or on one, is skipped on both") {
  heddle::testing::watchdog const guard(std::chrono::seconds(100));
  for (std::uint64_t const seed : {0, 3})
    for (unsigned const overflow : {3U, 2U, 1U}) {
      CAPTURE(seed);
      CAPTURE(overflow);
      check_overflow(overflow, seed);
    }
}
TEST_CASE_TEMPLATE("shared device: ranks' narrow numbers are added in float, and rounded once", T, __nv_bfloat16,
                   __half) {
  heddle::testing::watchdog const guard(std::chrono::seconds(100));
  emulation::session const here;
  // Of bfloat16 and of half, the first numbers beyond which 1 is less than half a step.
  float const large = std::is_same_v<T, __half> ? 2048 : 256;
  cuda::run_shared_device(9, 0, [&](cuda::shared_device_communicator& world) {
    using memory = cuda::device_memory;
    std::vector<T> x{T(world.rank() == 0 ? large : 1.0F), T(1.0F), T(0.5F)}, part(1);
    x.resize(9, T(1.0F));
    cuda::device_arena<T> const all(9), mine(1);
    memory::from_host(x.data(), all.data(), 9);
    world.reduce_scatter(std::span<T const>(all.data(), 9), std::span<T>(mine.data(), 1));
    world.all_reduce(std::span<T>(all.data(), 9));
    memory::to_host(static_cast<T const*>(all.data()), x.data(), 9);
    memory::to_host(static_cast<T const*>(mine.data()), part.data(), 1);
    CHECK(static_cast<float>(x[0]) == large + 8);  // one by one: large
    CHECK(static_cast<float>(x[1]) == 9);
    CHECK(static_cast<float>(x[2]) == 4.5F);
    if (world.rank() == 0) CHECK(static_cast<float>(part[0]) == large + 8);
  });
}
