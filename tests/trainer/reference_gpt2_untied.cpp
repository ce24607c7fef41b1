// SPDX-License-Identifier: Apache-2.0
#include "trainer/reference.hpp"

namespace reference_gpt2_untied {

TEST_CASE("GPT-2 without biases and with its own head equals PyTorch") {
  using namespace heddle;
  testing::compare_all_plans<gpt2<gpt2_config{
      .vocabulary = 13, .context = 6, .layers = 2, .heads = 2, .width = 8, .biased = false, .tied = false}>>(
      "gpt2_untied");
}

}  // namespace reference_gpt2_untied
