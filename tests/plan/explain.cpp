// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/backend/host/attention.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/models/llama.hpp>
#include <heddle/models/with_frozen.hpp>
#include <heddle/plan/explain.hpp>
#include <heddle/plan/traffic_classes.hpp>
#include <string>

namespace explain_test {

namespace hd = heddle;

namespace {

struct sizes_only : hd::host::attentions, hd::no_scratch {};

// Three kinds of stage, sizes that divide into uneven chunks, a tied head, state split over the data ranks.
using gpt =
    hd::gpt2<hd::gpt2_config{.vocabulary = 65, .context = 8, .layers = 6, .heads = 2, .width = 10, .biased = false}>;
struct pipelined : hd::plan<hd::mesh<hd::axis<hd::dp, 3>, hd::axis<hd::pp, 3>, hd::axis<hd::tp, 2>>, hd::accumulate<4>,
                            hd::zero<1>, hd::bucket<512>> {};
// Everything split, gradients reduced after each micro-batch, the sequence over an axis of its own.
using small_llama = hd::llama<hd::llama_config{
    .vocabulary = 48, .context = 8, .layers = 2, .heads = 4, .kv_heads = 2, .width = 16, .mlp = 24}>;
struct split
    : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::cp, 2>, hd::axis<hd::tp, 2>>,
               hd::rules<hd::shard<hd::heads, hd::tp>, hd::shard<hd::mlp, hd::tp>, hd::shard<hd::vocab, hd::tp>,
                         hd::shard<hd::batch, hd::dp>, hd::shard<hd::sequence, hd::cp>>,
               hd::accumulate<2>, hd::zero<3>, hd::reduce_gradients<hd::per_micro_batch>> {};

// Two data axes, of which the states are split over one; and rest layouts that are the plan's own.
struct hybrid : hd::plan<hd::mesh<hd::axis<hd::dp_replicate, 2>, hd::axis<hd::dp, 2>>, hd::zero<3, hd::dp>> {};
struct own_rest : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>> {
  struct rest_policy {
    static constexpr hd::rest_layouts of(hd::mesh_value const& mesh, hd::dimension_list const& dims,
                                         hd::layout const& compute) {
      hd::layout split = compute;
      if (dims.has(hd::id_v<hd::mlp>)) split.split(mesh.index_of(hd::id_v<hd::dp>), hd::id_v<hd::mlp>);
      return {split, split, split};
    }
  };
};

using piped = hd::resolved<gpt, pipelined, sizes_only>;
using replicated = hd::resolved<small_llama, hybrid, sizes_only>;
using by_itself = hd::resolved<small_llama, own_rest, sizes_only>;
using halved = hd::resolved<small_llama, split, sizes_only>;
// The same with frozen parts: all but the final norm, so that no backward reaches the layers; and some of the layers.
using tuned_end = hd::resolved<hd::with_frozen<small_llama, "wte", "h">, split, sizes_only>;
using tuned_layers = hd::resolved<hd::with_frozen<gpt, "wte", "lm_head", "h.mlp">, pipelined, sizes_only>;

/// Facts, classes and reasons against the ledger's constants, rank by rank.
template <class R>
void check_against_constants(hd::plan_facts const& f) {
  using ledger = hd::basic_ledger<R>;
  CHECK(f.parameters == ledger::parameters);
  CHECK(f.pipeline.bubble_of_total == ledger::bubble);
  for (std::size_t s = 0; s < f.stages; ++s) {
    CHECK(f.memory(s) == ledger::memory(s));
    auto const rows = ledger::rows(s);
    CHECK(f.memory_rows(s) == std::vector<hd::memory_row>(rows.begin(), rows.end()));
  }
  for (hd::stage_facts const& s : f.stage) {
    hd::explained_stage const explained(f, s);
    CHECK(explained.sum() == ledger::traffic(s.at));
    for (auto const& c : explained.collectives()) CHECK(!c.why.empty());

    hd::traffic_classes const classes(f.mesh, f.pipeline_axis, s.first, s.last, f.traffic);
    std::size_t most = 0, least = ~std::size_t{0};
    for (std::size_t rank = 0; rank < f.mesh.size(); ++rank) {
      hd::coordinates const at = f.mesh.coordinates_of(rank);
      std::size_t const stage = f.pipeline_axis == f.mesh.axes ? 0 : at[f.pipeline_axis];
      if (stage < s.first || stage > s.last) continue;
      hd::traffic_table const sent = ledger::traffic(at);
      most = sent.bytes() > most ? sent.bytes() : most;
      least = sent.bytes() < least ? sent.bytes() : least;
      for (std::size_t a = 0; a != f.mesh.axes; ++a) {
        std::size_t met = 0;
        for (hd::traffic_class const& c : classes.on(a))
          if (c.first <= at[a] && at[a] <= c.last) {
            ++met;
            CHECK(c.sent == sent.at[a]);
          }
        CHECK(met == 1);
      }
    }
    CHECK(classes.most().bytes() == most);
    CHECK(classes.least().bytes() == least);
  }
}

std::string why(hd::plan_facts const& f, std::string const& where, hd::step_phase phase, std::string const& what,
                hd::comm::operation operation) {
  for (hd::stage_facts const& s : f.stage) {
    hd::explained_stage const explained(f, s);
    for (auto const& c : explained.collectives())
      if (c.where == where && c.phase == phase && c.what == what && c.operation == operation) return c.why;
  }
  return {};
}

}  // namespace

TEST_CASE("a pipeline's facts are its constants, and its reasons Megatron's") {
  hd::plan_facts const f = hd::facts_of_plan<piped>();
  REQUIRE(f.stage.size() == 3);
  check_against_constants<piped>(f);
  using phase = hd::step_phase;
  using operation = hd::comm::operation;
  // The row-parallel linear and its dual, arXiv 2205.05198 §4.2.2.
  CHECK(
      why(f, "h.attn.proj", phase::forward, "the output", operation::reduce_scatter) ==
      "the output is a sum over heads, which shard<heads, tp> splits over tp in the op (it comes before "
      "shard<sequence, "
      "tp>): it comes out partial over tp; between ops shard<sequence, tp> splits the sequence of the output over tp");
  CHECK(
      why(f, "h.mlp.proj", phase::backward, "the output's cotangent", operation::all_gather) ==
      "between ops shard<sequence, tp> splits the sequence of the output's cotangent over tp; in the op shard<mlp, tp> "
      "splits mlp over tp (it comes before shard<sequence, tp>), and the output is a sum over it: each summand has the "
      "whole cotangent");
  CHECK(why(f, "h.attn.qkv", phase::forward, "the input", operation::all_gather) ==
        "between ops shard<sequence, tp> splits the sequence of the input over tp; in the op shard<heads, tp> splits "
        "heads "
        "over tp (it comes before shard<sequence, tp>), and the input lacks heads: every rank reads it whole over tp");
  CHECK(why(f, "wte.weight", phase::gradients, "the gradient, of the pipeline's two ends", operation::all_reduce) ==
        "the first and the last stage use one parameter (a tie): its gradient is partial over the two");
  CHECK(why(f, "", phase::backward, "the op's own sums", operation::all_reduce) ==
        "its algorithm completes the sums over vocab, which shard<vocab, tp> splits over tp");
}

TEST_CASE("parameters, gradients and sequences that rest split") {
  hd::plan_facts const f = hd::facts_of_plan<halved>();
  REQUIRE(f.stage.size() == 1);
  check_against_constants<halved>(f);
  using phase = hd::step_phase;
  using operation = hd::comm::operation;
  CHECK(why(f, "h.attn", phase::forward, "the input", operation::all_gather) ==
        "between ops shard<sequence, cp> splits the sequence of the input over cp; the op needs sequence whole");
  CHECK(
      why(f, "h.mlp.down.weight", phase::parameters, "the parameter, before forward and before backward",
          operation::all_gather) ==
      "the parameter rests split over dp along embed, by zero<3>; in the op shard<batch, dp> splits batch over dp, and "
      "the parameter lacks batch: every rank reads it whole over dp");
  CHECK(
      why(f, "h.attn.proj", phase::forward, "the output", operation::all_reduce) ==
      "the output is a sum over heads, which shard<heads, tp> splits over tp in the op: it comes out partial over tp; "
      "between ops no rule splits a dimension of the output over tp");
}

TEST_CASE("who chose the rest layouts is said as the plan has it") {
  hd::plan_facts const f = hd::facts_of_plan<replicated>(), own = hd::facts_of_plan<by_itself>();
  check_against_constants<replicated>(f);
  check_against_constants<by_itself>(own);
  CHECK(f.rest == "zero<3, dp>");
  CHECK(own.rest == "the plan's rest_policy");
  using phase = hd::step_phase;
  using operation = hd::comm::operation;
  CHECK(
      why(f, "h.mlp.down.weight", phase::parameters, "the parameter, before forward and before backward",
          operation::all_gather) ==
      "the parameter rests split over dp along embed, by zero<3, dp>; in the op shard<batch, dp> splits batch over dp, "
      "and the parameter lacks batch: every rank reads it whole over dp");
  CHECK(
      why(own, "h.mlp.down.weight", phase::parameters, "the parameter, before forward and before backward",
          operation::all_gather) ==
      "the parameter rests split over dp along mlp, by the plan's rest_policy; in the op shard<batch, dp> splits batch "
      "over dp, and the parameter lacks batch: every rank reads it whole over dp");
}

TEST_CASE("what is frozen has no reductions, and what no backward reaches is gathered once") {
  hd::plan_facts const end = hd::facts_of_plan<tuned_end>(), layers = hd::facts_of_plan<tuned_layers>();
  check_against_constants<tuned_end>(end);
  check_against_constants<tuned_layers>(layers);
  CHECK(end.trained_parameters == 16 + 16 * 48);
  using phase = hd::step_phase;
  using operation = hd::comm::operation;
  CHECK(why(end, "h.mlp.down.weight", phase::parameters, "the parameter, before forward", operation::all_gather) != "");
  CHECK(why(end, "lm_head.weight", phase::parameters, "the parameter, before forward and before backward",
            operation::all_gather) != "");
  for (hd::stage_facts const& s : end.stage) {
    hd::explained_stage const explained(end, s);
    for (auto const& c : explained.collectives()) {
      CHECK((c.phase != phase::backward || c.where.substr(0, 2) != "h."));
      for (auto const& name : c.parameters) CHECK(name.substr(0, 2) != "h.");
    }
  }
  // The frozen head does not keep its input: backward brings it, for the logits, which are in chunks.
  CHECK(why(layers, "lm_head", phase::backward, "the input", operation::all_gather) != "");
  CHECK(why(layers, "lm_head", phase::forward, "the input", operation::all_gather) == "");
  CHECK(why(layers, "h.attn.qkv", phase::forward, "the input", operation::all_gather) != "");
  // The tie's two copies are not summed, since they have no gradient.
  CHECK(why(layers, "wte.weight", phase::gradients, "the gradient, of the pipeline's two ends",
            operation::all_reduce) == "");
}

TEST_CASE("halving finds what asking every position finds") {
  using mesh = hd::mesh<hd::axis<hd::dp, 1000003>>;
  std::size_t asked = 0;
  hd::traffic_classes const classes(mesh::value, 1, 0, 0, [&](hd::coordinates const& at) {
    ++asked;
    hd::traffic_table t{};
    for (std::size_t count : {5UL, 7UL, 1000000UL}) hd::count_reduction<float>(t, mesh::value, at, 1U, count);
    return t;
  });
  CHECK(asked < 100);
  auto const& on = classes.on(0);
  REQUIRE(on.size() == 4);
  CHECK(on[0].last == 4);
  CHECK(on[1].last == 6);
  CHECK(on[2].last == 999999);
  CHECK(on[3].last == 1000002);
}

}  // namespace explain_test
