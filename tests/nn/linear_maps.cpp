// SPDX-License-Identifier: Apache-2.0
// Products, biases and tables.
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/linear.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace linear_maps_test {
namespace {
constexpr initializer start = normal(1);
}

TEST_CASE("product: column-parallel, row-parallel") {
  check_module<product<dims<embed_dim>, dims<mlp_dim>, start>, activations<embed_dim>>();
  check_module<product<dims<mlp_dim>, dims<embed_dim>, start>, activations<mlp_dim>>();
}
TEST_CASE("product: onto a padded vocabulary, and from several dimensions") {
  check_module<product<dims<embed_dim>, dims<vocab_dim>, start>, activations<embed_dim>>();
  using head_dims = dims<dim<heads, 2>, dim<group, 2>, dim<head_dim, 2>>;
  check_module<product<head_dims, dims<embed_dim>, start>,
               activations<dim<heads, 2>, dim<group, 2>, dim<head_dim, 2>>>();
}
TEST_CASE("bias, positions") {
  check_module<bias<dims<mlp_dim>>, activations<mlp_dim>>();
  check_module<bias<dims<embed_dim>>, activations<embed_dim>>();
  check_module<position_embedding<sequence_dim, embed_dim>, activations<embed_dim>>();
}
TEST_CASE("embedding over a padded vocabulary") { check_module<embedding<vocab_dim, embed_dim>, tokens>(); }

}  // namespace linear_maps_test
