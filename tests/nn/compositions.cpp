// SPDX-License-Identifier: Apache-2.0
// Compositions: which values share memory, which are kept, which cotangents pass on their pointer.
#include <heddle/nn/activation.hpp>
#include <heddle/nn/attention.hpp>
#include <heddle/nn/dropout.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/norm.hpp>
#include <heddle/nn/rotary.hpp>

#include "meshes.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace compositions_test {
namespace {
constexpr initializer start = normal(1);
using up = product<dims<embed_dim>, dims<mlp_dim>, start>;
using down = product<dims<mlp_dim>, dims<embed_dim>, start>;
using drop = dropout<probability{0.25}>;
using attention_branch =
    sequential<layer_norm<embed_dim>,
               linear<embed_dim, dims<dim<heads, 2>, dim<qkv, 3>, dim<head_dim, 4>>, biased::yes, start>,
               rotary<sequence_dim, dim<heads, 2>, 1, dim<head_dim, 4>>,
               causal_attention<sequence_dim, dim<heads, 2>, 1, dim<head_dim, 4>>,
               linear<dims<dim<heads, 2>, dim<group, 1>, dim<head_dim, 4>>, embed_dim, biased::yes, start>, drop>;
}  // namespace

TEST_CASE("a block: attention and feed-forward branches with everything in them") {
  using block = sequential<residual<attention_branch>,
                           residual<sequential<rms_norm<embed_dim>, named<"fc", linear<embed_dim, mlp_dim>>, drop, gelu,
                                               named<"proj", linear<mlp_dim, embed_dim>>, drop>>>;
  check_module<block, activations<embed_dim>>();
  check_module<repeat<dim<layers, 3>, block>, activations<embed_dim>>();
}

}  // namespace compositions_test
