// SPDX-License-Identifier: Apache-2.0
#include <heddle/nn/activation.hpp>
#include <heddle/nn/dropout.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace pointwise_test {

TEST_CASE("activations") {
  check_module<gelu, activations<mlp_dim>>();
  check_module<gelu_erf, activations<embed_dim>>();
  check_module<silu, activations<embed_dim>>();
  check_module<activation<activation_kind::relu>, activations<mlp_dim>>();
}
TEST_CASE("gated_activation") {
  check_module<swiglu<mlp_dim>, activations<gate_up_dim, mlp_dim>>();
  check_module<gated_activation<activation_kind::gelu_tanh, embed_dim>, activations<gate_up_dim, embed_dim>>();
}
TEST_CASE("dropout, also with probability 0") {
  check_module<dropout<probability{0.3}>, activations<embed_dim>>();
  check_module<dropout<probability{0.3}>, activations<mlp_dim>>();
  check_module<dropout<probability{0}>, activations<embed_dim>>();
}

}  // namespace pointwise_test
