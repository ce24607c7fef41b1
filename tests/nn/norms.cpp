// SPDX-License-Identifier: Apache-2.0
#include <heddle/nn/norm.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace norms_test {

TEST_CASE("layer_norm with and without bias") {
  check_module<layer_norm<embed_dim>, activations<embed_dim>>();
  check_module<layer_norm<embed_dim, false>, activations<embed_dim>>();
}
TEST_CASE("rms_norm") { check_module<rms_norm<embed_dim>, activations<embed_dim>>(); }

}  // namespace norms_test
