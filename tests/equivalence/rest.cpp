// SPDX-License-Identifier: Apache-2.0
// What rests where is a choice, not a second code path: plans beside the table in which the sizes do not divide, in
// which states are split over one of two data axes, or in which a policy of the user's says where things rest.
#include "equivalence.hpp"

using namespace heddle;
using equivalence::gpt2_tied;
using equivalence::gpt2_untied;
using equivalence::llama_grouped;
using equivalence::row;

namespace {

template <std::size_t Data, std::size_t Stages, std::size_t Tensor>
using three = mesh<axis<dp, Data>, axis<pp, Stages>, axis<tp, Tensor>>;
using small_bucket = bucket<1000>;

// Widths of 4, 16 and 20 over three ranks: every split pads; layer norms of 16 leave the last rank 4 of its 6.
struct padded_1 : row<three<3, 1, 1>, true, one_f_one_b, 2, zero<1>> {};
struct padded_2 : row<three<3, 1, 2>, true, one_f_one_b, 1, zero<2>, small_bucket, logit_chunk<300>> {};
struct padded_3 : row<three<3, 2, 1>, true, one_f_one_b, 2, zero<3>, small_bucket, reduce_gradients<per_step>> {};
struct padded_3_at_once : row<three<3, 1, 1>, true, gpipe, 2, zero<3>, logit_chunk<800>> {};

// The row that other systems refuse in part: pipeline, tensor and data parallelism, ZeRO-3, tied embeddings,
// accumulation, clipping and dropout.
struct all_at_once
    : row<three<2, 2, 2>, true, one_f_one_b, 4, zero<3>, small_bucket, reduce_gradients<per_step>, logit_chunk<500>> {};
struct all_at_once_often : row<three<2, 2, 2>, true, one_f_one_b, 4, zero<3>, small_bucket> {};

using two_by_two = mesh<axis<dp_replicate, 2>, axis<dp, 2>, axis<pp, 2>>;
struct hybrid_pipeline : row<two_by_two, true, one_f_one_b, 2, zero<3, dp>, small_bucket, reduce_gradients<per_step>> {
};
struct hybrid_all : row<mesh<axis<dp_replicate, 2>, axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, true, one_f_one_b, 2,
                        zero<3, dp>, small_bucket> {};
struct hybrid_state : row<mesh<axis<dp_replicate, 2>, axis<dp, 2>, axis<pp, 1>, axis<tp, 2>>, true, gpipe, 2,
                          zero<1, dp>, small_bucket, reduce_gradients<per_step>> {};
struct hybrid_scattered : row<two_by_two, true, one_f_one_b, 2, zero<2, dp>, small_bucket> {};
/// All three axes beside the reduction of each micro-batch, with parameters and gradients whole.
struct state_at_once : row<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, true, one_f_one_b, 2, zero<1>, small_bucket,
                           reduce_gradients<per_micro_batch>> {};
struct both_axes : row<two_by_two, true, one_f_one_b, 2, zero<3>> {};
struct other_axis : row<mesh<axis<dp_replicate, 2>, axis<dp, 3>, axis<pp, 1>>, true, gpipe, 1, zero<2, dp_replicate>> {
};

/// Four axes, over all of which the gradients of norms and biases are partial.
struct four_axes : plan<mesh<axis<dp_replicate, 2>, axis<dp, 2>, axis<cp, 2>, axis<tp, 2>>,
                        rules<shard<heads, tp>, shard<mlp, tp>, shard<vocab, tp>, shard<batch, dp_replicate>,
                              shard<batch, dp>, shard<sequence, cp>, shard<sequence, tp>>,
                        micro_batch<equivalence::rows_per_micro_batch>, precision<fp64>, zero<3, dp>> {};

/// A user's own: parameters whole, their gradients split along the last dimension that the data ranks divide, state
/// along the first. Nothing that a bucket can take.
struct crosswise {
  static constexpr rest_layouts of(mesh_value const& mesh, dimension_list const& dims, layout const& compute) {
    return {compute, split(mesh, dims, compute, true), split(mesh, dims, compute, false)};
  }
  static constexpr layout split(mesh_value const& mesh, dimension_list const& dims, layout l, bool from_behind) {
    std::size_t const a = mesh.index_of(id_v<dp>), t = mesh.index_of(id_v<tp>);
    for (std::size_t i = 0; i < dims.rank; ++i) {
      std::size_t const k = from_behind ? dims.rank - 1 - i : i;
      layout moved = l;
      // Where tp splits another dimension, the gradient changes places with it: an all-to-all.
      if (from_behind && t < mesh.axes && l.is_split(t) && l.axis[t].dim != dims.dim[k].name) {
        moved.replicate(t);
        moved.split(t, dims.dim[k].name);
      }
      auto const extent = local_extents(mesh, dims, moved);
      if (extent[k] % mesh.axis[a].size != 0 || !splits_evenly(mesh, dims, moved)) continue;
      moved.split(a, dims.dim[k].name);
      return moved;
    }
    return l;
  }
};
struct own_policy : row<three<2, 1, 2>, false, one_f_one_b, 2> {
  using rest_policy = crosswise;
};
struct own_policy_at_once : row<three<2, 1, 2>, false, one_f_one_b, 2, reduce_gradients<per_micro_batch>> {
  using rest_policy = crosswise;
};

/// Every element of state, gradient and parameter is on one of the four ranks, along a dimension of its own.
struct four : row<three<4, 1, 1>, true, one_f_one_b, 2, zero<3>, reduce_gradients<per_step>> {};
constexpr bool shared_by_four() {
  using parameters = stage_parameters<resolved<gpt2_tied, four, host_backend>, stage_kind::whole>;
  for (std::size_t n = 0; n < parameters::count; ++n) {
    auto const& e = parameters::entry[n];
    if (4 * e.size != e.dims.size() || 4 * e.state_size != e.dims.size() || 4 * e.reduced_size != e.dims.size() ||
        e.copies * e.gather.to_size != e.dims.size() || e.reduction.count != 1 ||
        e.reduction.step[0].kind != step_kind::reduce_scatter || e.gather.step[0].kind != step_kind::all_gather)
      return false;
  }
  return true;
}
static_assert(shared_by_four());

}  // namespace

TEST_CASE("zero 1 over three ranks that divide nothing") { equivalence::compare_with_serial<gpt2_tied, padded_1>(); }
TEST_CASE("zero 2 over three ranks, of a vocabulary that tp pads") {
  equivalence::compare_with_serial<gpt2_untied, padded_2>();
}
TEST_CASE("zero 3 over three ranks under pp2") { equivalence::compare_with_serial<llama_grouped, padded_3>(); }
TEST_CASE("zero 3 over three ranks, reduced per micro-batch") {
  equivalence::compare_with_serial<gpt2_tied, padded_3_at_once>();
}
TEST_CASE("dp2 pp2 tp2, zero 3, tied, accumulation, clipping, dropout") {
  equivalence::compare_with_serial<gpt2_tied, all_at_once>();
  equivalence::compare_with_serial<gpt2_tied, all_at_once_often>();
}
TEST_CASE(
    "hybrid: state over one of two data axes, under pp2, tp2, and pp2 tp2, reduced per step and per micro-batch") {
  equivalence::compare_with_serial<gpt2_tied, hybrid_pipeline>();
  equivalence::compare_with_serial<gpt2_tied, hybrid_all>();
  equivalence::compare_with_serial<gpt2_tied, hybrid_state>();
  equivalence::compare_with_serial<llama_grouped, hybrid_scattered>();
  equivalence::compare_with_serial<gpt2_tied, state_at_once>();
  equivalence::compare_with_serial<gpt2_untied, both_axes>();
  equivalence::compare_with_serial<gpt2_untied, other_axis>();
}
TEST_CASE("gradients that are partial over four axes at once") {
  equivalence::compare_with_serial<gpt2_tied, four_axes>();
}
TEST_CASE("a rest policy of the user's own") {
  equivalence::compare_with_serial<gpt2_untied, own_policy>();
  equivalence::compare_with_serial<gpt2_untied, own_policy_at_once>();
}
