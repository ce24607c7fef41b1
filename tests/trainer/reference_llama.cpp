// SPDX-License-Identifier: Apache-2.0
#include "trainer/reference.hpp"

namespace reference_llama {

TEST_CASE("Llama with grouped queries equals PyTorch") {
  using namespace heddle;
  testing::compare_all_plans<llama<llama_config{
      .vocabulary = 13, .context = 6, .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .mlp = 12}>>("llama");
}

}  // namespace reference_llama
