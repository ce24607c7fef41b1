// SPDX-License-Identifier: Apache-2.0
#include <heddle/nn/attention.hpp>
#include <heddle/nn/cross_entropy.hpp>
#include <heddle/nn/rotary.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {
using heads_dim = dim<heads, 2>;
using width_dim = dim<head_dim, 4>;
template <std::size_t Group>
using qkv_input = activations<heads_dim, dim<qkv, Group + 2>, width_dim>;
}  // namespace

TEST_CASE("causal_attention: multi-head") {
  check_module<causal_attention<sequence_dim, heads_dim, 1, width_dim>, qkv_input<1>>();
}
TEST_CASE("causal_attention: grouped-query") {
  check_module<causal_attention<sequence_dim, heads_dim, 3, width_dim>, qkv_input<3>>();
}
TEST_CASE("rotary: multi-head and grouped-query") {
  check_module<rotary<sequence_dim, heads_dim, 1, width_dim>, qkv_input<1>>();
  check_module<rotary<sequence_dim, heads_dim, 2, width_dim>, qkv_input<2>>();
}
TEST_CASE("cross_entropy: ignored targets, padded vocabulary") {
  check_module<cross_entropy<vocab_dim>, activations<vocab_dim>>();
}
