// SPDX-License-Identifier: Apache-2.0
// What the papers say of tensor and sequence parallelism follows from the op rules, and from nothing else: no module
// names an axis. Rows MEG-… are of shared/paper-values.csv; faults (CE-3, SP-1, VP-3) of shared/known-faults.md.
#include <doctest/doctest.h>

#include "counting.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace megatron_test {
namespace {

constexpr gpt2_config small{.vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .width = 64};
constexpr llama_config small_llama{
    .vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .kv_heads = 4, .width = 64, .mlp = 96};
constexpr std::size_t values = 3 * 16 * 64;  // batch · sequence · embed of one micro-batch

using tp_4 = mesh<axis<tp, 4>>;
struct tensor : plan<tp_4, micro_batch<3>, sequence_parallel<false>> {};
struct sequences : plan<tp_4, micro_batch<3>> {};

using boundary = dims<dim<batch, 3>, dim<sequence, 16>, dim<embed, 64>>;
template <class Block, class Plan>
using placed_block = placed<Block, typename on<gpt2<small>, Plan>::modules, boundary>;
using gpt2_block = detail::gpt2_parts<small>::block;
using llama_block = detail::llama_parts<small_llama>::block;

template <class Placed>
constexpr traffic_table forward_traffic() {
  traffic_table t{};
  Placed::count_forward(t, {});
  return t;
}
template <class Placed>
constexpr traffic_table backward_traffic() {
  traffic_table t{};
  Placed::count_backward(t, {});
  return t;
}
/// Whether the table holds these calls on its one axis and no others.
constexpr bool calls(traffic_table const& t, std::size_t all_reduces, std::size_t all_gathers,
                     std::size_t reduce_scatters) {
  std::size_t total = 0;
  for (auto const& entry : t.at[0]) total += entry.calls;
  return t.of(0, comm::operation::all_reduce).calls == all_reduces &&
         t.of(0, comm::operation::all_gather).calls == all_gathers &&
         t.of(0, comm::operation::reduce_scatter).calls == reduce_scatters &&
         total == all_reduces + all_gathers + reduce_scatters;
}

// MEG-013, MEG-014 (arXiv 1909.08053 §3, figure 4): two all-reduces forward and two backward per layer.
static_assert(calls(forward_traffic<placed_block<gpt2_block, tensor>>(), 2, 0, 0));
static_assert(calls(backward_traffic<placed_block<gpt2_block, tensor>>(), 2, 0, 0));
static_assert(calls(forward_traffic<placed_block<llama_block, tensor>>(), 2, 0, 0));
static_assert(calls(backward_traffic<placed_block<llama_block, tensor>>(), 2, 0, 0));
// ACT-064 (arXiv 2205.05198 §4.2.2): with the sequence rule each becomes an all-gather and a reduce-scatter …
static_assert(calls(forward_traffic<placed_block<gpt2_block, sequences>>(), 0, 2, 2));
static_assert(calls(backward_traffic<placed_block<gpt2_block, sequences>>(), 0, 2, 2));
static_assert(calls(forward_traffic<placed_block<llama_block, sequences>>(), 0, 2, 2));
static_assert(calls(backward_traffic<placed_block<llama_block, sequences>>(), 0, 2, 2));
// … of the same bytes: a ring all-reduce is the two together.
static_assert(forward_traffic<placed_block<gpt2_block, tensor>>().bytes() == 2 * 2 * (values / 4 * 3) * sizeof(float));
static_assert(forward_traffic<placed_block<gpt2_block, sequences>>().bytes() ==
              forward_traffic<placed_block<gpt2_block, tensor>>().bytes());
static_assert(backward_traffic<placed_block<gpt2_block, sequences>>().bytes() ==
              backward_traffic<placed_block<gpt2_block, tensor>>().bytes());
// One rank moves nothing.
static_assert(forward_traffic<placed_block<gpt2_block, one_rank>>() == traffic_table{});

// MEG-016: f, at the entry of a column-parallel linear, is the identity forward and an all-reduce backward.
using column = placed<linear<dim<embed, 64>, dim<mlp, 256>, biased::no>, on<gpt2<small>, tensor>::modules, boundary>;
static_assert(column::in_path.empty() && column::out_path.empty() && column::out_dual.empty());
static_assert(column::in_dual.count == 1 && column::in_dual.step[0].kind == step_kind::all_reduce);
// MEG-017: g, at the exit of a row-parallel linear, is an all-reduce forward and the identity backward.
using hidden = dims<dim<batch, 3>, dim<sequence, 16>, dim<mlp, 256>>;
using row = placed<linear<dim<mlp, 256>, dim<embed, 64>, biased::no>, on<gpt2<small>, tensor>::modules, hidden>;
static_assert(row::in_path.empty() && row::in_dual.empty() && row::out_dual.empty());
static_assert(row::out_path.count == 1 && row::out_path.step[0].kind == step_kind::all_reduce);

// MEG-019: the split cross-entropy moves elements in the order of batch · sequence, whatever the vocabulary.
template <std::size_t Vocabulary>
using loss = placed<cross_entropy<dim<vocab, Vocabulary>>, on<gpt2<small>, tensor>::modules,
                    dims<dim<batch, 3>, dim<sequence, 16>, dim<vocab, Vocabulary>>>;
static_assert(forward_traffic<loss<64>>().bytes() == 2 * (3 + 2 * 3) * 16 / 4 * 3 * sizeof(float));
static_assert(forward_traffic<loss<64>>() == forward_traffic<loss<6400>>());
static_assert(backward_traffic<loss<64>>() == traffic_table{});

// CE-3: replicated logits cannot be handed to the split loss. Its input lies in the placement of the logits' own
// dimensions, a quarter of the columns here, and no other value of these dimensions exists under the plan.
static_assert(loss<64>::input_layout.is_split(0) && loss<64>::place::input_size == 3 * 16 * 64 / 4);
static_assert(loss<64>::in_path.empty() && loss<64>::input_layout == loss<64>::place::input_layout);
using head = placed<linear<dim<embed, 64>, dim<vocab, 64>, biased::no>, on<gpt2<small>, tensor>::modules, boundary>;
static_assert(head::output_layout == loss<64>::input_layout);

// The look-up in a table split over the vocabulary is a pending sum over tp (arXiv 1909.08053 §3).
using table_of_64 = placed<embedding<dim<vocab, 64>, dim<embed, 64>>, on<gpt2<small>, tensor>::modules,
                           dims<dim<batch, 3>, dim<sequence, 16>>>;
static_assert(table_of_64::place::output_layout.is_partial(0) && table_of_64::uses[0].compute.is_split(0));
static_assert(table_of_64::out_path.count == 1 && table_of_64::out_path.step[0].kind == step_kind::all_reduce);
// With the sequence rule that sum is scattered, not replicated.
using scattered_table = placed<embedding<dim<vocab, 64>, dim<embed, 64>>, on<gpt2<small>, sequences>::modules,
                               dims<dim<batch, 3>, dim<sequence, 16>>>;
static_assert(scattered_table::out_path.step[0].kind == step_kind::reduce_scatter);

// SP-1: a norm's gains see a part of the sequence under the sequence rule, so their gradients are pending over tp; so
// are those of the biases that follow row-parallel linears. Without the rule every rank sees everything.
template <class Plan>
constexpr bool pending_over_tp(std::string_view name) {
  parameter_entry const e = entry_of<on<gpt2<small>, Plan>>(name);
  return e.gradient.is_partial(0) && !e.gradient_rest.has_partial() && e.reduction.count == 1;
}
static_assert(pending_over_tp<sequences>("h.ln_1.weight") && pending_over_tp<sequences>("h.ln_2.bias"));
static_assert(pending_over_tp<sequences>("ln_f.weight") && pending_over_tp<sequences>("h.mlp.proj.bias"));
static_assert(!pending_over_tp<tensor>("h.ln_1.weight") && !pending_over_tp<tensor>("h.mlp.proj.bias"));
static_assert(!pending_over_tp<sequences>("h.mlp.fc.weight") && !pending_over_tp<sequences>("h.attn.qkv.bias"));

// Data parallelism: every gradient is pending over dp, and over nothing else here.
struct data : plan<mesh<axis<dp, 4>>, micro_batch<3>> {};
constexpr bool all_pending_over_dp() {
  using t = table<on<gpt2<small>, data>>;
  for (std::size_t n = 0; n < t::count; ++n)
    if (!t::entry[n].gradient.is_partial(0) || t::entry[n].reduction.step[0].kind != step_kind::all_reduce)
      return false;
  return t::count > 10;
}
static_assert(all_pending_over_dp());

// A tied table is one parameter with two uses that agree; its gradient over a pipeline is pending over the two stages
// that use it.
struct staged : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, micro_batch<3>> {};
constexpr gpt2_config untied{.vocabulary = 64, .context = 16, .layers = 2, .heads = 8, .width = 64, .tied = false};
static_assert(table<on<gpt2<small>, tensor>>::count + 1 == table<on<gpt2<untied>, tensor>>::count);
static_assert(table<on<gpt2<small>, tensor>>::use_count == table<on<gpt2<untied>, tensor>>::use_count);
static_assert(shared_parameters<on<gpt2<small>, staged>>::count == 1);
static_assert(shared_parameters<on<gpt2<untied>, staged>>::count == 0);
static_assert(basic_ledger<on<gpt2<small>, staged>>::parameters == parameters_of<gpt2<small>>);

// VP-3: the padded vocabulary is computed in one place.
static_assert(padded_size(50100, 1, 64) == 50112 && padded_size(50100, 2, 64) == 50176);
template <std::size_t Ranks>
struct padded_plan : plan<mesh<axis<tp, Ranks>>, padding<pad<vocab, 64>>> {};
constexpr gpt2_config with_50100{
    .vocabulary = 50100, .context = 840, .layers = 1, .heads = 840, .width = 840, .tied = false};
template <std::size_t Ranks>
constexpr bool padded_alike() {
  using t = table<on<gpt2<with_50100>, padded_plan<Ranks>>>;
  constexpr std::size_t rows = padded_size(50100, Ranks, 64);
  constexpr parameter_entry embedded = entry_of<on<gpt2<with_50100>, padded_plan<Ranks>>>("wte.weight");
  constexpr parameter_entry headed = entry_of<on<gpt2<with_50100>, padded_plan<Ranks>>>("lm_head.weight");
  // Optimizer state has the layout and size of its parameter: both are one entry's.
  return embedded.dims.dim[0].stored == rows && headed.dims.dim[0].stored == rows && embedded.size == headed.size &&
         embedded.size == rows / Ranks * 840 && embedded.dims.dim[0].size == 50100 && embedded.rest == headed.rest &&
         t::elements >= 2 * embedded.size;
}
static_assert(padded_alike<1>() && padded_alike<2>() && padded_alike<3>() && padded_alike<4>());
static_assert(padded_alike<5>() && padded_alike<6>() && padded_alike<7>() && padded_alike<8>());

}  // namespace

TEST_CASE("traffic of a block is the same on every rank of the axis") {
  using block = placed_block<gpt2_block, sequences>;
  for (std::size_t r = 0; r < 4; ++r) {
    traffic_table here{};
    block::count_forward(here, {r});
    CHECK(here == forward_traffic<block>());
  }
}

}  // namespace megatron_test
