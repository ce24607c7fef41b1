// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/models/gpt2.hpp>
#include <heddle/plan/report.hpp>
#include <heddle/tensor/no_scratch.hpp>
#include <string>
#include <vector>

namespace report_test {

namespace hd = heddle;

namespace {

/// Nothing is computed here.
struct no_backend : hd::no_scratch {
  template <std::size_t...>
  static constexpr std::size_t attention_scratch() {
    return 0;
  }
  template <std::size_t...>
  static constexpr std::size_t attention_backward_scratch() {
    return 0;
  }
};
using model = hd::gpt2<hd::gpt2_config{.vocabulary = 16, .context = 4, .layers = 12, .heads = 2, .width = 8}>;
template <class Plan>
using on = hd::resolved<model, Plan, no_backend>;

struct accumulating : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::accumulate<4>, hd::zero<2>,
                               hd::reduce_gradients<hd::per_step>, hd::logit_chunk<200>, hd::bucket<4096>> {};
struct at_once : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::accumulate<4>, hd::zero<2>> {};
struct hybrid : hd::plan<hd::mesh<hd::axis<hd::dp_replicate, 2>, hd::axis<hd::dp, 2>>, hd::zero<3, hd::dp>> {};
struct over_both : hd::plan<hd::mesh<hd::axis<hd::dp_replicate, 2>, hd::axis<hd::dp, 2>>, hd::zero<1>> {};
struct one_data_rank : hd::plan<hd::mesh<hd::axis<hd::dp, 1>>, hd::zero<3>, hd::reduce_gradients<hd::per_micro_batch>> {
};
struct one_rank : hd::plan<hd::mesh<hd::axis<hd::pp, 1>>, hd::bucket<4096>, hd::reduce_gradients<hd::per_step>,
                           hd::sequence_parallel<true>, hd::pipeline<hd::gpipe>> {};
/// Each of them does something; what is reduced are the gradients of norms, which tensor ranks have of half a sequence.
struct tensor_ranks : hd::plan<hd::mesh<hd::axis<hd::tp, 2>>, hd::accumulate<2>, hd::bucket<4096>,
                               hd::reduce_gradients<hd::per_step>, hd::sequence_parallel<true>> {};
struct summed : hd::plan<hd::mesh<hd::axis<hd::tp, 2>>, hd::rules<hd::shard<hd::embed, hd::tp>>, hd::logit_chunk<200>> {
};
/// Gradients added up over micro-batches are fp32 and sent in bf16; those of the tied table are summed as they are.
struct mixed_stages : hd::plan<hd::mesh<hd::axis<hd::pp, 2>>, hd::accumulate<2>, hd::precision<hd::bf16_mixed>> {};
struct six_stages : hd::plan<hd::mesh<hd::axis<hd::pp, 6>>, hd::accumulate<4>> {};

/// The parameter rests split over dp, its optimizer state as it is computed with; or the other way round.
template <bool Parameter, bool State>
struct split_at_rest {
  static constexpr hd::rest_layouts of(hd::mesh_value const& mesh, hd::dimension_list const& dims,
                                       hd::layout const& compute) {
    hd::layout split = compute;
    std::size_t const k = dims.index_of(hd::id_v<hd::embed>);
    if (k < dims.rank && !compute.splits(hd::id_v<hd::embed>))
      split.split(mesh.index_of(hd::id_v<hd::dp>), hd::id_v<hd::embed>);
    return {Parameter ? split : compute, compute, State ? split : compute};
  }
};
template <bool Parameter, bool State>
struct resting : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>> {
  using rest_policy = split_at_rest<Parameter, State>;
};

/// The two plans above differ in when they reduce alone: what one says of the other's choice is the other's ledger.
template <class Plan>
std::string const gradients_of =
    hd::detail::grouped_digits(hd::basic_ledger<on<Plan>>::memory(0).of(hd::memory_category::gradients));

/// The line that begins with `name`, its columns one space apart.
std::string line_of(std::string const& text, std::string const& name) {
  std::size_t const begin = text.find("\n  " + name + " ");
  std::string out;
  if (begin == std::string::npos) return out;
  for (char c : text.substr(begin + 3, text.find('\n', begin + 1) - begin - 3))
    if (c != ' ' || out.empty() || out.back() != ' ') out += c;
  return out;
}

}  // namespace

TEST_CASE("where columns are of stages, each has what its busiest rank sends, though other stages send alike") {
  using R = on<six_stages>;
  auto const columns = hd::traffic_columns<R>(1);
  REQUIRE(columns.size() == 6);
  for (std::size_t stage = 0; stage < 6; ++stage) {
    CAPTURE(stage);
    CHECK(columns[stage].sent == hd::traffic_of_step<R>(R::mesh::value.coordinates_of(stage)));
    CHECK(columns[stage].sent.bytes() > 0);
  }
}

TEST_CASE("a parameter's row has the layouts in which it and its optimizer state rest, where they are others") {
  auto const row = [](std::string const& text) { return line_of(text, "h.mlp.fc.weight"); };
  CHECK(row(hd::describe_plan<on<resting<false, false>>>()) ==
        "h.mlp.fc.weight [layers, mlp, embed] 12 × 32 × 8 dp all_reduce dp");
  CHECK(row(hd::describe_plan<on<resting<true, true>>>()) ==
        "h.mlp.fc.weight [layers, mlp, embed], at rest [layers, mlp, embed:dp] 12 × 32 × 8, at rest 12 × 32 × 4 dp "
        "all_reduce dp");
  CHECK(row(hd::describe_plan<on<resting<false, true>>>()) ==
        "h.mlp.fc.weight [layers, mlp, embed], state [layers, mlp, embed:dp] 12 × 32 × 8, state 12 × 32 × 4 dp "
        "all_reduce dp");
  CHECK(
      row(hd::describe_plan<on<resting<true, false>>>()) ==
      "h.mlp.fc.weight [layers, mlp, embed], at rest [layers, mlp, embed:dp], state [layers, mlp, embed] 12 × 32 × 8, "
      "at rest 12 × 32 × 4, state 12 × 32 × 8 dp all_reduce dp");
  CHECK(line_of(hd::describe_plan<on<mixed_stages>>(), "wte.weight").find("all_reduce both stages in fp32") !=
        std::string::npos);
}

TEST_CASE("what zero splits, what reductions cost, and that logits come in chunks, is said where it is so") {
  // Half of all parameters, 4 bytes each; reduced at once, each use of the tied table sends its own gradient.
  std::size_t const once = 2 * hd::basic_ledger<on<accumulating>>::parameters, at_once_too = once + 2 * 16 * 8;
  std::string const parts = hd::detail::plan_report<on<accumulating>>::overview({0, 1});
  CHECK(parts.find("stage 2 over dp, which splits optimizer state and gradients\n") != parts.npos);
  CHECK(parts.find("reduced once, after the last of 4 micro-batches, sending " + hd::detail::grouped_digits(once) +
                   " bytes, and a rank keeps " + gradients_of<accumulating> +
                   " bytes of gradients; reduce_gradients<per_micro_batch> keeps " + gradients_of<at_once> +
                   " and sends after each\n") != parts.npos);
  CHECK(parts.find("no effect") == parts.npos);
  CHECK(parts.find("logits      256 B a micro-batch, in chunks of 2 of 4 tokens\n") != parts.npos);
  std::string const often = hd::detail::plan_report<on<at_once>>::overview({0, 1});
  CHECK(often.find("stage 2 over dp, which splits optimizer state and gradients\n") != often.npos);
  CHECK(often.find("reduced after each of 4 micro-batches, sending 4 × " + hd::detail::grouped_digits(at_once_too) +
                   " bytes, and a rank keeps " + gradients_of<at_once> +
                   " bytes of gradients; reduce_gradients<per_step> keeps " + gradients_of<accumulating> +
                   " and sends once\n") != often.npos);
  CHECK(often.find("logits") == often.npos);
  std::string const alone = hd::detail::plan_report<on<one_data_rank>>::overview({0, 1});
  CHECK(alone.find("stage 3 over dp, of 1 rank, which splits nothing\n") != alone.npos);
  CHECK(alone.find("reduced") == alone.npos);
  // Of two data axes, the one that it names, or both.
  std::string const replicas = hd::detail::plan_report<on<hybrid>>::overview({0, 1});
  CHECK(replicas.find("stage 3 over dp, which splits optimizer state, gradients and parameters\n") != replicas.npos);
  std::string const both = hd::detail::plan_report<on<over_both>>::states();
  CHECK(both == "stage 1 over dp_replicate+dp, which splits optimizer state");
  // A policy of the user's own is not zero's.
  std::string const own = hd::detail::plan_report<on<resting<true, true>>>::overview({0, 1});
  CHECK(own.find("stage ") == own.npos);
}

TEST_CASE("a policy that changes nothing is said to have no effect, and one that does something is not") {
  using lines = std::vector<std::string>;
  CHECK(hd::detail::idle_policies<on<one_rank>>() ==
        lines{"bucket<4096> has no effect: no gradient travels in buckets",
              "reduce_gradients<per_step> has no effect: no gradient is a sum over ranks",
              "sequence_parallel<true> has no effect: the mesh has no axis tp, over which it splits the sequence",
              "pipeline<Schedule> has no effect: there is one stage, and one micro-batch"});
  CHECK(hd::detail::idle_policies<on<one_data_rank>>() ==
        lines{"reduce_gradients<per_micro_batch> has no effect but on memory, which has a unit's gradients twice: no "
              "gradient is a sum over ranks"});
  CHECK(hd::detail::idle_policies<on<tensor_ranks>>().empty());
  std::string const alone = hd::detail::plan_report<on<one_data_rank>>::overview({0, 1});
  CHECK(alone.find("policy      reduce_gradients<per_micro_batch> has no effect but on memory") != alone.npos);
}

TEST_CASE("where the logits are a sum over ranks, it is said that they stand whole") {
  std::string const text = hd::detail::plan_report<on<summed>>::overview({0, 1});
  CHECK(text.find("logits      256 B a micro-batch, whole and not in chunks of 200 B: the loss, or what") != text.npos);
}

}  // namespace report_test
