// SPDX-License-Identifier: Apache-2.0
// Rules of a user's own, beside the table's defaults: any dimension over any axis, in any order of priority, gives the
// one-rank run, and moves and stores what its constants say. So does padding of more than the vocabulary.
#include "equivalence.hpp"
#include "serial.hpp"

using namespace heddle;

namespace {
template <class Mesh, class Rules, std::size_t MicroBatches>
struct row
    : plan<Mesh, Rules, accumulate<MicroBatches>, micro_batch<equivalence::rows_per_micro_batch>, precision<fp64>> {};
using llama_tied = llama<llama_config{.vocabulary = 3,
                                      .context = 4,
                                      .layers = 2,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .width = 16,
                                      .mlp = 8,
                                      .tied = true,
                                      .dropout = 0.1}>;

using dp2 = mesh<axis<dp, 2>>;
using tp2 = mesh<axis<tp, 2>>;
struct vocabulary_before_batch : row<dp2, rules<shard<vocab, dp>, shard<batch, dp>>, 2> {};
struct sequence_before_batch : row<dp2, rules<shard<sequence, dp>, shard<batch, dp>>, 2> {};
struct context : row<mesh<axis<dp, 2>, axis<cp, 2>>, rules<shard<batch, dp>, shard<sequence, cp>>, 2> {};
struct batch_twice : row<mesh<axis<dp, 2>, axis<ep, 2>>, rules<shard<batch, ep>, shard<batch, dp>>, 1> {};
struct sequence_before_heads
    : row<tp2, rules<shard<sequence, tp>, shard<heads, tp>, shard<mlp, tp>, shard<vocab, tp>>, 1> {};
using three_heads =
    gpt2<gpt2_config{.vocabulary = 13, .context = 4, .layers = 2, .heads = 3, .width = 12, .mlp = 10, .dropout = 0.1}>;
using three_groups = llama<llama_config{
    .vocabulary = 7, .context = 4, .layers = 2, .heads = 6, .kv_heads = 3, .width = 24, .mlp = 10, .dropout = 0.1}>;
struct padded : plan<mesh<axis<tp, 4>>, padding<pad<vocab>, pad<heads>, pad<mlp, 2>>, accumulate<2>,
                     micro_batch<equivalence::rows_per_micro_batch>, precision<fp64>> {};
struct inner_dimensions : row<tp2, rules<shard<gate_up, tp>, shard<head_dim, tp>, shard<embed, tp>>, 1> {};
}  // namespace

TEST_CASE("the vocabulary takes the data axis from the batch: token ids and targets are gathered") {
  equivalence::compare_with_serial<equivalence::gpt2_tied, vocabulary_before_batch>();
}
TEST_CASE("the sequence takes the data axis from the batch: token ids and targets are exchanged") {
  equivalence::compare_with_serial<equivalence::gpt2_tied, sequence_before_batch>();
}
TEST_CASE("the sequence over an axis of its own, gathered for attention") {
  equivalence::compare_with_serial<equivalence::gpt2_tied, context>();
}
TEST_CASE("the batch over two axes, the second of the mesh the more significant") {
  equivalence::compare_with_serial<equivalence::gpt2_tied, batch_twice>();
}
TEST_CASE("the sequence before heads: attention exchanges one for the other") {
  equivalence::compare_with_serial<llama_tied, sequence_before_heads>();
}
TEST_CASE("dimensions that attention, norms and gates need whole") {
  equivalence::compare_with_serial<llama_tied, inner_dimensions>();
}
TEST_CASE("padded heads and feed-forward widths hold zeros and change nothing") {
  equivalence::compare_with_serial<three_heads, padded>();
  equivalence::compare_with_serial<three_groups, padded>();
}
