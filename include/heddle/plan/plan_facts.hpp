// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/layout/describe.hpp>
#include <heddle/pipeline/measured_schedule.hpp>
#include <heddle/plan/legality.hpp>
#include <heddle/plan/memory_rows.hpp>
#include <heddle/plan/op_walk.hpp>
#include <heddle/plan/report.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/plan/stage_traffic.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle {

// A plan for a model as plain values, for planners: everything that placing decides, and nothing that depends on a
// type. What is made of it (plan/explain.hpp, a program's own tables) is compiled once for all plans.

/// An op as the rules placed it.
struct op_facts {
  std::string where{};  ///< the names around it, "h.attn.qkv"
  std::string name{};   ///< of its module, "product"
  std::size_t copies = 1;
  bool repeated = false, reads_tokens = false, is_loss = false;
  std::size_t first_use = 0, uses = 0;  ///< of parameters, among those of its stage
  op_placement op{};
  dimension_list whole{}, reduced{};
  dimension_list in{}, out{};
  layout input_own{}, input_compute{}, input_cotangent{};  ///< between ops; as it is read; as its cotangent comes out
  layout output_pending{}, output_own{};                   ///< as it comes out; between ops
  redistribution in_path{}, out_path{};
  redistribution out_dual{.exists = true}, in_dual{.exists = true};
  bool input_in_backward = false;       ///< in_path is executed there: of a frozen head whose logits come in chunks
  bool moves_cotangent = false;         ///< in_dual is executed: what reads tokens passes nothing back
  redistribution token_path{};          ///< of token ids and targets to the op
  traffic_table forward{}, backward{};  ///< what the op's own algorithm moves in one call
};

/// Gradients that travel together.
struct bucket_facts {
  bucket_class shape{};
  traffic_table sent{};  ///< in a step
};

/// The stages of one kind: they run the same code.
struct stage_facts {
  std::size_t first = 0, last = 0;  ///< of these stages
  coordinates at{};                 ///< whose traffic the tables here count: the first rank of the first of them
  std::vector<op_facts> ops{};
  std::vector<parameter_entry> parameters{};
  std::vector<bool> shared{};                ///< by parameter: the pipeline's other end holds it too
  std::vector<std::size_t> of_use{};         ///< the parameter that each use reads
  std::vector<std::size_t> passes_of_use{};  ///< that read it: 2, forward and backward, or 1 before what is trained
  std::vector<bucket_facts> buckets{};
  std::vector<std::size_t>
      bucket_of{};             ///< by parameter; `buckets.size()` where its gradient travels alone, or not at all
  std::size_t reductions = 1;  ///< of gradients in a step
  bool reduces_uses = false;   ///< each use of a parameter sends its own part
  std::size_t input_size = 0, output_size = 0;  ///< elements that come from the stage before, and go to the next; or 0
  memory_table (*memory)(std::size_t in_flight, std::size_t output_gradients) = nullptr;
  std::vector<memory_row> (*rows)(std::size_t in_flight, std::size_t output_gradients) = nullptr;
};

struct plan_facts {
  mesh_value mesh{};
  rule_list rules{};
  std::vector<std::string> rule_names{};  ///< "shard<heads, tp>"
  std::size_t element_bytes = 0;          ///< of parameters and activations
  std::size_t travelling_bytes = 0;       ///< of gradients between ranks
  std::size_t gradient_bytes = 0;         ///< of reduced gradients
  std::size_t master_bytes = 0;           ///< of optimizer state, and of master weights where there are any
  bool has_master = false;
  std::size_t micro_batches = 1, micro_batch_size = 1, data_ways = 1, global_batch_size = 1, context = 1;
  std::size_t parameters = 0;
  std::size_t trained_parameters = 0;  ///< all but the frozen ones
  std::size_t pipeline_axis = 0;       ///< `mesh.axes` where nothing splits the layers
  std::size_t stages = 1;
  std::string schedule{};
  schedules::measured_schedule pipeline{};
  std::string rest{};  ///< what chooses the rest layouts: "zero<1>"
  std::size_t optimizer_slots = 0;
  dimension_list tokens{};
  layout token_layout{};
  std::vector<stage_facts> stage{};  ///< one for each kind, by position
  traffic_table (*traffic)(coordinates const&) = nullptr;
  std::string overview{}, values{}, parameter_rows{};  ///< parts of the plan's report

  /// The facts of a stage.
  [[nodiscard]] stage_facts const& of_stage(std::size_t s) const {
    std::size_t k = 0;
    while (stage[k].last < s) ++k;
    return stage[k];
  }
  [[nodiscard]] memory_table memory(std::size_t s) const {
    return of_stage(s).memory(pipeline.peak_in_flight[s], output_gradients(s));
  }
  /// The same, line by line.
  [[nodiscard]] std::vector<memory_row> memory_rows(std::size_t s) const {
    return of_stage(s).rows(pipeline.peak_in_flight[s], output_gradients(s));
  }
  [[nodiscard]] std::size_t output_gradients(std::size_t s) const {
    return pipeline.gradients_ahead[s] == 1 ? 1 : pipeline.peak_in_flight[s];
  }
};

namespace detail {

template <class... Shards>
std::vector<std::string> rule_names(rules<Shards...>) {
  return {("shard<" + std::string(Shards::dim::name) + ", " + std::string(Shards::axis::name) + ">")...};
}

/// As the plan writes it: "zero<3>", and with the axes where it names some, "zero<3, dp>".
template <std::size_t Stage, class... Axes>
std::string zero_name(zero<Stage, Axes...>) {
  return "zero<" + std::to_string(Stage) + (std::string() + ... + (", " + std::string(Axes::name))) + ">";
}

template <class R>
std::string rest_name() {
  using plan = typename R::plan;
  using zero_policy = rest_of_zero<typename plan::zero_choice, typename plan::mesh, typename plan::rules>;
  if constexpr (std::is_same_v<typename plan::rest_policy, zero_policy>)
    return zero_name(typename plan::zero_choice{});
  else
    return "the plan's rest_policy";
}

template <class Module, class Op>
op_facts facts_of_op(op_site const& site, coordinates const& at) {
  using place = typename Op::place;
  op_facts o;
  o.where = site.where;
  o.name = op_name<Module>();
  o.copies = site.copies;
  o.repeated = site.repeated;
  o.reads_tokens = Op::reads_tokens;
  o.is_loss = requires { typename Module::is_loss; };
  o.uses = Op::uses.size();
  o.op = place::op;
  o.whole = Module::whole;
  o.reduced = Module::reduced;
  o.in = place::in;
  o.out = place::out;
  o.input_own = Op::input_layout;
  o.input_compute = place::input_layout;
  o.input_cotangent = place::op.sum(place::in);
  o.output_pending = place::output_layout;
  o.output_own = Op::output_layout;
  o.in_path = Op::in_path;
  o.out_path = Op::out_path;
  if (Op::goes_back) {  // else nothing is trained before it, and nothing moves
    o.out_dual = Op::out_dual;
    o.in_dual = Op::in_dual;
    o.moves_cotangent = Op::moves_dx;
  }
  o.token_path = place::token_path;
  Op::kernel::count_forward(o.forward, at);
  if (Op::goes_back) Op::kernel::count_backward(o.backward, at);
  return o;
}

template <class R, stage_kind Kind>
stage_facts facts_of_stage(std::size_t first, std::size_t last) {
  using partition = stage_partition<R>;
  using stage = typename partition::template stage<Kind>;
  using parameters = stage_parameters<R, Kind>;
  using buckets = gradient_buckets<R, Kind>;
  using memory = stage_memory<R, Kind>;
  stage_facts f;
  f.first = first;
  f.last = last;
  if (partition::axis != R::mesh::value.axes) f.at[partition::axis] = first;
  std::size_t uses = 0;
  // Of a loss in chunks the op before it gives the rows; with its bias, where that adds a constant to them.
  constexpr std::size_t none = ~std::size_t{0};
  std::size_t source = none;
  bool brings_rows = false;
  for_each_op<stage>([&]<class Module, class Op>(op_tag<Module, Op>, op_site const& site) {
    f.ops.push_back(facts_of_op<Module, Op>(site, f.at));
    if constexpr (Op::chunk_rows != 0 && stage::logit_rows != 0) {
      if (source != none) f.ops[source].input_in_backward = brings_rows;
      f.ops.back().forward = f.ops.back().backward = {};
      loss_chunks<Op>::count(f.ops.back().backward, f.at);
    }
    f.ops.back().first_use = uses;
    uses += f.ops.back().uses;
    if (source != none && (Op::adds_constant || Op::identity)) return;
    source = f.ops.size() - 1;
    brings_rows = Op::gathered_for_rows != 0;
  });
  f.parameters.assign(parameters::entry.begin(), parameters::entry.end());
  f.of_use.assign(parameters::of_use.begin(), parameters::of_use.end());
  for (parameter_unit const& u : parameters::units) f.passes_of_use.resize(u.first_use + u.uses, u.backward ? 2 : 1);
  for (std::size_t n = 0; n < parameters::count; ++n) {
    f.shared.push_back(shared_parameters<R>::template is_shared<Kind>(n));
    f.bucket_of.push_back(buckets::class_of[n] == bucket_table::none ? buckets::count : buckets::class_of[n]);
  }
  for (std::size_t k = 0; k < buckets::count; ++k) {
    f.buckets.push_back({buckets::of[k], {}});
    buckets::count_class(f.buckets[k].sent, f.at, k);
  }
  f.reductions = buckets::passes;
  f.reduces_uses = parameters::reduces_at_once;
  f.input_size = memory::is_first ? 0 : memory::input_size;
  f.output_size = memory::is_last ? 0 : memory::output_size;
  f.memory = &memory::table;
  f.rows = [](std::size_t in_flight, std::size_t output_gradients) {
    auto const rows = memory_rows_of_kind<R, Kind>(in_flight, output_gradients);
    return std::vector<memory_row>(rows.begin(), rows.end());
  };
  return f;
}

}  // namespace detail

/// The facts of a plan that can work; one that cannot does not compile. The schedule is measured when this runs: its
/// fault, where it has one, is among the facts.
template <class R>
plan_facts facts_of_plan() {
  static_assert(sizeof(legal<R>) > 0);
  using plan = typename R::plan;
  using partition = stage_partition<R>;
  using report = detail::plan_report<R>;
  plan_facts f;
  f.mesh = R::mesh::value;
  f.rules = R::rules::value;
  f.rule_names = detail::rule_names(typename R::rules{});
  f.element_bytes = sizeof(typename R::element);
  f.travelling_bytes = sizeof(typename R::elements::travelling);
  f.gradient_bytes = sizeof(typename R::elements::gradient);
  f.master_bytes = sizeof(typename R::elements::master);
  f.has_master = R::elements::has_master;
  f.micro_batches = plan::micro_batches;
  f.micro_batch_size = plan::micro_batch_size;
  f.data_ways = plan::data_ways;
  f.global_batch_size = plan::global_batch_size;
  f.context = R::model::context;
  f.parameters = count_parameters<R>();
  f.trained_parameters = count_all_parameters<R>().trained;
  f.pipeline_axis = partition::axis;
  f.stages = partition::stages;
  f.schedule = schedule_name<typename plan::schedule>();
  f.pipeline = schedules::measure_schedule<typename plan::schedule, partition::stages, plan::micro_batches>();
  f.rest = detail::rest_name<R>();
  f.optimizer_slots = plan::optimizer_type::slots;
  f.tokens = R::tokens::value;
  f.token_layout = R::token_layout;
  constexpr std::size_t last = partition::stages - 1;
  if constexpr (partition::stages == 1) {
    f.stage.push_back(detail::facts_of_stage<R, stage_kind::whole>(0, 0));
  } else {
    f.stage.push_back(detail::facts_of_stage<R, stage_kind::first>(0, 0));
    if constexpr (partition::stages > 2) f.stage.push_back(detail::facts_of_stage<R, stage_kind::middle>(1, last - 1));
    f.stage.push_back(detail::facts_of_stage<R, stage_kind::last>(last, last));
  }
  f.traffic = [](coordinates const& at) { return traffic_of_step<R>(at); };
  f.overview = report::overview(f.pipeline.bubble_of_total);
  f.values = report::values();
  f.parameter_rows = report::parameters();
  return f;
}

}  // namespace heddle
