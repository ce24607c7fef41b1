// SPDX-License-Identifier: Apache-2.0
#include "trainer/reference.hpp"

namespace reference_gpt2_tied {

TEST_CASE("GPT-2 with a tied head equals PyTorch") {
  using namespace heddle;
  testing::compare_all_plans<gpt2<gpt2_config{.vocabulary = 13, .context = 6, .layers = 2, .heads = 2, .width = 8}>>(
      "gpt2_tied");
}

}  // namespace reference_gpt2_tied
