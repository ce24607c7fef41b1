// SPDX-License-Identifier: Apache-2.0
// Whole models whose products have epilogues: trained as on the host, and how many of them there are in a step.
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <heddle/layout/names.hpp>
#include <heddle/models/gpt2.hpp>
#include <vector>

#include "../comm/watchdog.hpp"
#include "cublaslt/handles.hpp"
#include "mixed_models.hpp"

namespace model_fused_cpp {

using namespace heddle;

constexpr std::size_t depth = 2, micro_batches = 2;
/// The residual sums are the products', which have a bias and a base then.
using model = gpt2<gpt2_config{.vocabulary = 11, .context = 4, .layers = depth, .heads = 2, .width = 8, .tied = true}>;
struct in_fp32 : plan<micro_batch<2>, accumulate<micro_batches>, precision<fp32>> {};
struct in_tf32 : plan<micro_batch<2>, accumulate<micro_batches>, precision<tf32>> {};
struct in_bf16 : plan<micro_batch<2>, accumulate<micro_batches>, precision<bf16_mixed>> {};
struct in_fp64 : plan<micro_batch<2>, accumulate<micro_batches>, precision<fp64>> {};
struct tensor_ranks : plan<mesh<axis<tp, 2>>, micro_batch<2>, accumulate<micro_batches>, precision<fp32>> {};

/// What cuBLASLt runs in one step of all ranks.
template <class Plan>
std::map<cublasLtEpilogue_t, std::size_t> products_of_step() {
  emulation::session const here;
  std::map<cublasLtEpilogue_t, std::size_t> const before = emulation::blas_calls_now().products;
  cuda::run_shared_device(Plan::mesh::size, 0, [](cuda::shared_device_communicator& world) {
    mesh_communicator<typename Plan::mesh, cuda::shared_device_communicator> rank(world);
    using trainer = basic_trainer<model, Plan, cuda_backend>;
    trainer run(rank, {});
    std::vector<std::int32_t> const tokens(trainer::local_tokens, 3);
    run.step(tokens, tokens);
  });
  std::map<cublasLtEpilogue_t, std::size_t> now = emulation::blas_calls_now().products;
  for (auto const& [kind, n] : before) now[kind] -= n;
  return now;
}

}  // namespace model_fused_cpp

using namespace model_fused_cpp;

/// Sums of a few dozen terms in another order.
constexpr double of_sums = 64;
/// A residual sum with a bias is rounded once on the device, and twice on the host.
constexpr double of_residuals = 2;

TEST_CASE("a GPT-2 in fp32 trains on a device as on the host") {
  emulation::check_mixed_model<model, in_fp32>({0, 3}, of_sums);
}
TEST_CASE("a GPT-2 in bf16_mixed, whose residual sums are its products', trains on a device as on the host") {
  emulation::check_mixed_model<model, in_bf16>({0, 3}, of_residuals);
}
TEST_CASE("tensor ranks in fp32 train on a device as on the host") {
  heddle::testing::watchdog const guard(std::chrono::seconds(100));
  emulation::check_mixed_model<model, tensor_ranks>({0, 3}, of_sums);
}
TEST_CASE("all four linears of a layer have epilogues; of tensor ranks, those without a pending sum") {
  heddle::testing::watchdog const guard(std::chrono::seconds(100));
  constexpr std::size_t linears = 4 * depth;
  auto used = products_of_step<in_fp32>();
  CHECK(used[CUBLASLT_EPILOGUE_BIAS] == linears * micro_batches);
  CHECK(used[CUBLASLT_EPILOGUE_BGRADB] == linears);  // of the first micro-batch, whose gradients are fresh
  used = products_of_step<in_tf32>();
  CHECK(used[CUBLASLT_EPILOGUE_BIAS] == linears * micro_batches);
  CHECK(used[CUBLASLT_EPILOGUE_BGRADB] == linears);
  used = products_of_step<in_bf16>();
  CHECK(used[CUBLASLT_EPILOGUE_BIAS] == linears * micro_batches);
  CHECK(used[CUBLASLT_EPILOGUE_BGRADB] == linears * micro_batches);  // each leaves a part, which are added in float
  used = products_of_step<in_fp64>();
  CHECK(used[CUBLASLT_EPILOGUE_BIAS] + used[CUBLASLT_EPILOGUE_BGRADB] == 0);
  used = products_of_step<tensor_ranks>();
  CHECK(used[CUBLASLT_EPILOGUE_BIAS] == linears / 2 * micro_batches * 2);
  CHECK(used[CUBLASLT_EPILOGUE_BGRADB] == linears / 2 * 2);
}
