// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/models/llama.hpp>

#include "models.hpp"

namespace model_llama_cpp {

using namespace heddle;

using model = llama<llama_config{
    .vocabulary = 9, .context = 6, .layers = 2, .heads = 4, .kv_heads = 2, .width = 8, .mlp = 10, .dropout = 0.1}>;
struct sharded : plan<mesh<axis<dp, 1>>, micro_batch<2>, zero<3>, precision<fp64>> {};
struct of_two : plan<mesh<axis<dp, 2>>, accumulate<2>, zero<3>, precision<fp64>> {};

}  // namespace model_llama_cpp

using namespace model_llama_cpp;

TEST_CASE("a Llama trains on a device as on the host, under ZeRO-3 on one rank") {
  emulation::check_model<model, sharded>({0, 1, 4, 9});  // each of ten: model_gpt2.cpp
}
TEST_CASE("a Llama trains on a device as on the host, under ZeRO-3 on two ranks that share the device") {
  emulation::check_model<model, of_two>({0, 3});
}
