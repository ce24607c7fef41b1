// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <heddle/layout/names.hpp>
#include <heddle/plan/plan.hpp>

#include "harness.hpp"

/// The meshes and rules under which every module is looked at, and the sizes used.
namespace heddle::testing {

using batch_dim = dim<batch, 4>;
using sequence_dim = dim<sequence, 4>;
using embed_dim = dim<embed, 8>;
using mlp_dim = dim<mlp, 12>;
using vocab_dim = dim<vocab, 13>;  // no number of ranks divides it
using tokens = dims<batch_dim, sequence_dim>;
template <class... Ds>
using activations = dims<batch_dim, sequence_dim, Ds...>;

/// Data parallelism, tensor parallelism without and with the sequence rule, both; and rules that no one would take for
/// a model but that are as legal: width split, sequence alone, one dimension over two axes.
template <class Module, class Input>
void check_module() {
  using dp2 = mesh<axis<dp, 2>>;
  using tp2 = mesh<axis<tp, 2>>;
  using dp2_tp2 = mesh<axis<dp, 2>, axis<tp, 2>>;
  subject const& one = subject_of<Module, Input, mesh<>, megatron_rules, tokens>();
  check_gradients(one);
  check_same(one, subject_of<Module, Input, dp2, megatron_rules, tokens>(), "dp2");
  check_same(one, subject_of<Module, Input, tp2, megatron_rules, tokens>(), "tp2");
  check_same(one, subject_of<Module, Input, tp2, megatron_sequence_rules, tokens>(), "tp2, sequence rule");
  check_same(one, subject_of<Module, Input, dp2_tp2, megatron_sequence_rules, tokens>(), "dp2 tp2, sequence rule");
  check_same(one, subject_of<Module, Input, tp2, rules<shard<embed, tp>>, tokens>(), "the width over tp");
  check_same(one, subject_of<Module, Input, dp2_tp2, rules<shard<sequence, tp>, shard<sequence, dp>>, tokens>(),
             "the sequence over tp and dp");
  check_same(one, subject_of<Module, Input, dp2_tp2, rules<shard<mlp, dp>, shard<mlp, tp>, shard<embed, dp>>, tokens>(),
             "mlp over dp and tp, else the width over dp");
}

}  // namespace heddle::testing
