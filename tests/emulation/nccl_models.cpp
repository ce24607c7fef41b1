// SPDX-License-Identifier: Apache-2.0
// Whole models, trained by plans over NCCL on emulated devices as by thread ranks on the host.
#include <doctest/doctest.h>

#include <heddle/cuda/nccl.hpp>
#include <heddle/models/gpt2.hpp>

#include "../comm/watchdog.hpp"
#include "models.hpp"
#include "nccl_ranks.hpp"

namespace nccl_models_cpp {

using namespace heddle;

using model = gpt2<gpt2_config{
    .vocabulary = 12, .context = 4, .layers = 2, .heads = 2, .width = 8, .tied = true, .dropout = 0.1}>;

/// Every kind of collective: tensor and sequence parallelism with gathered parameters.
struct gathered : plan<mesh<axis<dp, 2>, axis<tp, 2>>, micro_batch<2>, accumulate<2>, zero<3>, precision<fp64>> {};
/// Transfers between stages beside collectives of two other axes; embeddings tied over the stages.
struct cube : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, micro_batch<1>, accumulate<3>, pipeline<one_f_one_b>,
                   zero<2>, precision<fp64>> {};
/// Gradients of 16 bits, which are exchanged and added in float: not by NCCL.
struct narrow : plan<mesh<axis<dp, 2>>, micro_batch<1>, zero<2>, precision<bf16_mixed>> {};

template <class Plan>
void check_over_nccl() {
  testing::watchdog const guard(std::chrono::seconds(170));
  std::mutex mutex;
  emulation::trained host;
  run<Plan>(threads, [&](auto& rank) { emulation::train<model, Plan, host_backend>(rank, host, mutex); });
  for (std::uint64_t const seed : {0, 3}) {
    CAPTURE(seed);
    testing::nccl_session const here({.mode = seed == 0 ? emulation::execution::eager : emulation::execution::delayed,
                                      .seed = seed,
                                      .devices = Plan::mesh::size,
                                      .only_named = seed == 3});
    emulation::trained device;
    // Little room: what each kernel does not name is copied before it and compared after.
    run<Plan>(nccl_threads, {.room = 1024},
              [&](auto& rank) { emulation::train<model, Plan, cuda_backend>(rank, device, mutex); });
    emulation::check_same(device, host);
  }
}

/// Two steps allocate nothing, and give NCCL what the trainer's counters say.
template <class Plan>
void check_steps() {
  testing::watchdog const guard(std::chrono::seconds(170));
  testing::nccl_session const here({.devices = Plan::mesh::size});
  run<Plan>(nccl_threads, {.room = 128}, [&](auto& rank) {
    basic_trainer<model, Plan, cuda_backend> one(rank, {.seed = 3});
    std::size_t const before = emulation::usage_now().device_bytes;
    CHECK(before > one.allocated().total() + one.steering_bytes());
    std::size_t const counted = one.sent().bytes(), given = emulation::nccl_sent();
    std::vector<std::int32_t> const ids(one.local_tokens, 1);
    for (int step = 0; step < 2; ++step) {
      CHECK(one.step(ids, ids).gradient_norm > 0);
      CHECK(emulation::usage_now().device_bytes == before);
    }
    CHECK(one.sent().bytes() > counted);
    CHECK(emulation::nccl_sent() - given == one.sent().bytes() - counted);
    rank.world().barrier();  // nobody frees while another is in a call
  });
}

}  // namespace nccl_models_cpp

TEST_CASE("nccl: ZeRO-3 with tensor parallelism trains as thread ranks do") {
  nccl_models_cpp::check_over_nccl<nccl_models_cpp::gathered>();
}
TEST_CASE("nccl: a pipeline with tensor and data parallelism trains as thread ranks do") {
  nccl_models_cpp::check_over_nccl<nccl_models_cpp::cube>();
}
TEST_CASE("nccl: steps allocate nothing, and send what is counted: collectives, transfers, and sums of 16 bits") {
  nccl_models_cpp::check_steps<nccl_models_cpp::gathered>();
  nccl_models_cpp::check_steps<nccl_models_cpp::cube>();
  nccl_models_cpp::check_steps<nccl_models_cpp::narrow>();
}
