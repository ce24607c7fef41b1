// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/plan/plan_facts.hpp>
#include <heddle/plan/reason.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

/// When in a step a collective takes place.
enum class step_phase : unsigned char { forward, backward, parameters, gradients, update, end };
constexpr std::string_view name_of(step_phase p) {
  constexpr std::string_view names[] = {"forward", "backward", "before use", "gradients", "update", "end of step"};
  return names[static_cast<std::size_t>(p)];
}

/// One collective with all its calls in a step of one rank, and why it is there.
struct explained_collective {
  std::string where{};  ///< the op's or parameter's name; "step" for the step's own
  std::string op{};     ///< of an op: the name of its module
  step_phase phase = step_phase::forward;
  std::string what{};  ///< what it moves: "the output"
  comm::operation operation = comm::operation::all_reduce;
  std::size_t axis = 0;
  std::size_t calls = 0;
  std::size_t bytes = 0;
  std::string from{}, to{};  ///< layouts, where a value moves from one to another
  std::string why{};
  std::vector<std::string> parameters{};  ///< whose gradients travel in it
  friend bool operator==(explained_collective const&, explained_collective const&) = default;
};

/// Every collective of a step of the rank `s.at`, in the order of the table. The reasons are read off the algebra:
/// which rule claimed the axis for which dimension of the op, and which of them the value lacks.
///
/// **Law** (tests/plan). Calls and bytes sum up to `traffic_of_step` of that rank, operation by operation.
class explained_stage {
 public:
  explained_stage(plan_facts const& plan, stage_facts const& stage)
      : plan_(plan), stage_(stage), say_(plan.mesh, plan.rules, plan.rule_names) {
    for (op_facts const& o : stage.ops) explain_op(o);
    explain_transfers();
    for (std::size_t k = 0; k < stage.of_use.size(); ++k) explain_use(k);
    for (std::size_t k = 0; k < stage.buckets.size(); ++k) explain_bucket(k);
    explain_reductions_alone();
    for (std::size_t n = 0; n < stage.parameters.size(); ++n) explain_update(n);
    explain_scalars();
  }

  [[nodiscard]] std::vector<explained_collective> const& collectives() const { return found_; }

  /// The sum over them.
  [[nodiscard]] traffic_table sum() const {
    traffic_table t{};
    for (auto const& c : found_) t.add(c.axis, c.operation, c.calls, c.bytes);
    return t;
  }

 private:
  using role = reason::role;

  /// A row for each step of `path` that communicates, executed `times` times.
  template <class Why>
  void add_path(explained_collective row, dimension_list const& dims, layout const& from, layout const& to,
                redistribution const& path, std::size_t times, std::size_t element_bytes, Why const& why) {
    row.from = describe(plan_.mesh, dims, from);
    row.to = describe(plan_.mesh, dims, to);
    for (std::size_t i = 0; i < path.count; ++i) {
      redistribution_step const& s = path.step[i];
      if (s.kind == step_kind::slice) continue;
      std::size_t const ways = plan_.mesh.axis[s.axis].size;
      row.axis = s.axis;
      row.operation = operation_of(s.kind);
      row.calls = times;
      row.bytes = times * elements_sent(s.kind, size_moved(path, s, ways), ways, stage_.at[s.axis]) * element_bytes;
      row.why = from.axis[s.axis] == to.axis[s.axis]
                    ? say_.axis(s.axis) + " lies alike before and after, and makes way for the other steps"
                    : why(s.axis);
      found_.push_back(row);
    }
  }

  void explain_op(op_facts const& o) {
    std::size_t const times = plan_.micro_batches * o.copies, bytes = plan_.element_bytes;
    explained_collective row;
    row.where = o.where;
    row.op = o.name;
    placed_op const op{o.op, o.whole, o.reduced};
    dimension_list const whole_sequences = reason::without_first(o.in);
    dimension_list const kept = o.reads_tokens ? whole_sequences : dimension_list{};
    auto const value = [&](role r, std::string const& name, dimension_list const& dims, std::size_t a) {
      return say_.in_op(op, r, name, dims, a);
    };

    row.phase = o.input_in_backward ? step_phase::backward : step_phase::forward;
    row.what = "the input";
    add_path(row, o.in, o.input_own, o.input_compute, o.in_path, times, o.reads_tokens ? sizeof(std::int32_t) : bytes,
             [&](std::size_t a) {
               return say_.between_ops("the input", o.in, kept, a) + "; " + value(role::operand, "the input", o.in, a);
             });
    row.phase = step_phase::forward;
    explain_algorithm(row, o, op, o.forward, times);
    row.what = "the output";
    add_path(row, o.out, o.output_pending, o.output_own, o.out_path, times, bytes, [&](std::size_t a) {
      return value(role::sum, "the output", o.out, a) + "; " + say_.between_ops("the output", o.out, {}, a);
    });
    row.phase = step_phase::backward;
    row.what = "the output's cotangent";
    add_path(row, o.out, cotangent(o.output_own), cotangent(o.output_pending), o.out_dual, times, bytes,
             [&](std::size_t a) {
               return say_.between_ops("the output's cotangent", o.out, {}, a) + "; " +
                      value(role::cotangent, "the output's cotangent", o.out, a);
             });
    explain_algorithm(row, o, op, o.backward, times);
    row.what = "the input's cotangent";
    if (o.moves_cotangent)
      add_path(row, o.in, o.input_cotangent, o.input_own, o.in_dual, times, bytes, [&](std::size_t a) {
        return value(role::sum, "the input's cotangent", o.in, a) + "; " +
               say_.between_ops("the input's cotangent", o.in, {}, a);
      });
  }

  /// What the op's own algorithm moves: targets that it reads, and the sums that it completes itself.
  void explain_algorithm(explained_collective row, op_facts const& o, placed_op const& op, traffic_table const& moved,
                         std::size_t times) {
    traffic_table targets{};
    count_redistribution<std::int32_t>(targets, plan_.mesh, stage_.at, o.token_path);
    for (std::size_t a = 0; a != plan_.mesh.axes; ++a)
      for (std::size_t k = 0; k < comm::operation_count; ++k) {
        auto const operation = static_cast<comm::operation>(k);
        traffic_table::entry all = moved.of(a, operation);
        traffic_table::entry const target = targets.of(a, operation);
        row.operation = operation;
        row.axis = a;
        if (target.calls != 0 && all.calls >= target.calls && all.bytes >= target.bytes) {
          row.what = "the targets";
          row.calls = times * target.calls;
          row.bytes = times * target.bytes;
          row.why = say_.between_ops("the targets", plan_.tokens, reason::without_first(plan_.tokens), a) + "; " +
                    say_.in_op(op, role::operand, "the targets", plan_.tokens, a);
          found_.push_back(row);
          all.calls -= target.calls;
          all.bytes -= target.bytes;
        }
        if (all.calls == 0) continue;
        row.what = "the op's own sums";
        row.calls = times * all.calls;
        row.bytes = times * all.bytes;
        row.why = say_.own_sum(op, a);
        found_.push_back(row);
      }
  }

  void explain_transfers() {
    std::size_t const a = plan_.pipeline_axis;
    if (a == plan_.mesh.axes) return;
    auto const add = [&](step_phase phase, comm::operation operation, std::string what, std::size_t elements,
                         std::string why) {
      explained_collective row;
      row.where = "step";
      row.phase = phase;
      row.what = std::move(what);
      row.operation = operation;
      row.axis = a;
      row.calls = plan_.micro_batches;
      row.bytes = operation == comm::operation::send ? plan_.micro_batches * elements * plan_.element_bytes : 0;
      row.why = say_.layers(a) + "; " + std::move(why);
      found_.push_back(std::move(row));
    };
    if (stage_.input_size != 0) {
      add(step_phase::forward, comm::operation::receive, "the stage's input", 0, "the stage before holds those before");
      add(step_phase::backward, comm::operation::send, "the input's cotangent", stage_.input_size,
          "the stage before, which made the input, goes on with its cotangent");
    }
    if (stage_.output_size != 0) {
      add(step_phase::forward, comm::operation::send, "the stage's output", stage_.output_size,
          "the next stage holds the next ones");
      add(step_phase::backward, comm::operation::receive, "the output's cotangent", 0,
          "the next stage, which reads the output, makes its cotangent");
    }
  }

  /// The name of the parameter, its dimensions without the layers', and a row for it.
  struct parameter_row {
    parameter_entry const& entry;
    dimension_list dims;
    explained_collective row{};
  };
  [[nodiscard]] parameter_row row_of(std::size_t n, step_phase phase, std::string what) const {
    parameter_entry const& e = stage_.parameters[n];
    parameter_row p{e, e.stacked ? reason::without_first(e.dims) : e.dims};
    p.row.where = std::string(e.name.view());
    p.row.phase = phase;
    p.row.what = std::move(what);
    return p;
  }

  void explain_use(std::size_t k) {
    std::size_t const passes = stage_.passes_of_use[k];
    auto p =
        row_of(stage_.of_use[k], step_phase::parameters,
               passes == 2 ? "the parameter, before forward and before backward" : "the parameter, before forward");
    layout const rest = restrict_to(p.entry.rest, p.dims), compute = restrict_to(p.entry.compute, p.dims);
    add_path(p.row, p.dims, rest, compute, p.entry.gather, passes * plan_.micro_batches * p.entry.copies,
             plan_.element_bytes, [&](std::size_t a) {
               return say_.at_rest(plan_.rest, "the parameter", p.dims, rest, a) + "; " +
                      say_.in_op(op_of_use(k), role::operand, "the parameter", p.dims, a);
             });
  }

  [[nodiscard]] placed_op op_of_use(std::size_t k) const {
    for (op_facts const& o : stage_.ops)
      if (k >= o.first_use && k < o.first_use + o.uses) return {o.op, o.whole, o.reduced};
    return {};
  }
  [[nodiscard]] std::size_t first_use_of(std::size_t n) const {
    std::size_t k = 0;
    while (stage_.of_use[k] != n) ++k;
    return k;
  }
  /// Why the gradient of parameter n is summed over axis `a`, and where its sum goes.
  [[nodiscard]] std::string gradient_reason(std::size_t n, std::size_t a, bool along) const {
    auto const p = row_of(n, step_phase::gradients, {});
    layout const rest = restrict_to(p.entry.gradient_rest, p.dims);
    return say_.in_op(op_of_use(first_use_of(n)), role::sum, "the gradient", p.dims, a) + "; " +
           say_.at_rest(plan_.rest, "the reduced gradient", p.dims, rest, a, along);
  }

  /// One row for each collective and each reason: the gradients of a bucket have theirs in common, but for the
  /// dimension along which each is scattered, which is left out.
  void explain_bucket(std::size_t k) {
    bucket_facts const& b = stage_.buckets[k];
    explained_collective row;
    row.phase = step_phase::gradients;
    std::size_t first = stage_.parameters.size();
    for (std::size_t n = 0; n < stage_.parameters.size(); ++n) {
      if (stage_.bucket_of[n] != k) continue;
      if (first == stage_.parameters.size()) first = n;
      row.parameters.emplace_back(stage_.parameters[n].name.view());
    }
    if (row.parameters.empty()) return;
    std::size_t const others = row.parameters.size() - 1;
    row.where = row.parameters[0];
    if (others != 0) row.where += " and " + std::to_string(others) + (others == 1 ? " other" : " others");
    row.what = others == 0 ? "the gradient, in buckets" : "gradients, in buckets";
    for (std::size_t i = 0; i < b.shape.count; ++i) {
      std::size_t const a = b.shape.steps[i].axis;
      row.axis = a;
      row.operation = operation_of(b.shape.steps[i].kind);
      traffic_table::entry const& sent = b.sent.of(a, row.operation);
      row.calls = sent.calls;
      row.bytes = sent.bytes;
      row.why.clear();
      std::vector<std::string> reasons;
      for (std::size_t n = first; n < stage_.parameters.size(); ++n) {
        if (stage_.bucket_of[n] != k) continue;
        std::string const one = gradient_reason(n, a, row.parameters.size() == 1);
        bool fresh = true;
        for (auto const& r : reasons) fresh = fresh && r != one;
        if (!fresh) continue;
        reasons.push_back(one);
        row.why += (row.why.empty() ? "" : " | ") + one;
      }
      found_.push_back(row);
    }
  }

  void explain_reductions_alone() {
    auto const explain = [&](std::size_t n) {
      if (stage_.bucket_of[n] != stage_.buckets.size()) return;
      auto p = row_of(n, step_phase::gradients, "the gradient");
      add_path(p.row, p.dims, restrict_to(p.entry.gradient, p.dims), restrict_to(p.entry.gradient_rest, p.dims),
               p.entry.reduction, stage_.reductions * p.entry.copies, plan_.travelling_bytes,
               [&](std::size_t a) { return gradient_reason(n, a, true); });
    };
    if (stage_.reduces_uses)
      for (std::size_t n : stage_.of_use) explain(n);
    else
      for (std::size_t n = 0; n < stage_.parameters.size(); ++n) explain(n);
  }

  void explain_update(std::size_t n) {
    auto p = row_of(n, step_phase::update, {});
    layout const rest = restrict_to(p.entry.rest, p.dims), gradient = restrict_to(p.entry.gradient_rest, p.dims),
                 state = restrict_to(p.entry.state_rest, p.dims);
    std::size_t const times = p.entry.copies, bytes = plan_.element_bytes;
    auto const between = [&](char const* one, layout const& from, char const* other, layout const& to) {
      return [=, this, &p](std::size_t a) {
        return say_.at_rest(plan_.rest, one, p.dims, from, a) + "; " + say_.at_rest(plan_.rest, other, p.dims, to, a);
      };
    };
    p.row.what = "the parameter, to the layout of the optimizer's state";
    if (!plan_.has_master)
      add_path(p.row, p.dims, rest, state, p.entry.to_state, times, bytes,
               between("the parameter", rest, "the optimizer's state", state));
    p.row.what = "the gradient, to the layout of the optimizer's state";
    add_path(p.row, p.dims, gradient, state, p.entry.gradient_to_state, times, plan_.gradient_bytes,
             between("the reduced gradient", gradient, "the optimizer's state", state));
    p.row.what = "the updated parameter";
    add_path(p.row, p.dims, state, rest, p.entry.from_state, times, bytes,
             between("the update, as the optimizer's state,", state, "the parameter", rest));
    if (!stage_.shared[n] || !p.entry.trainable) return;
    p.row.phase = step_phase::gradients;
    p.row.what = "the gradient, of the pipeline's two ends";
    p.row.axis = plan_.pipeline_axis;
    p.row.operation = comm::operation::all_reduce;
    p.row.calls = 1;
    p.row.bytes = comm::all_reduce_sent(p.entry.reduced_size, 2, stage_.first == 0 ? 0 : 1) * plan_.gradient_bytes;
    p.row.from = p.row.to = {};
    p.row.why = "the first and the last stage use one parameter (a tie): its gradient is partial over the two";
    found_.push_back(p.row);
  }

  void explain_scalars() {
    for (std::size_t a = 0; a != plan_.mesh.axes; ++a) {
      auto const add = [&](char const* what, std::size_t calls, std::size_t elements, std::string why) {
        explained_collective row;
        row.where = "step";
        row.phase = step_phase::end;
        row.what = what;
        row.axis = a;
        row.calls = calls;
        row.bytes = comm::all_reduce_sent(elements, plan_.mesh.axis[a].size, stage_.at[a]) * sizeof(double);
        row.why = std::move(why);
        found_.push_back(std::move(row));
      };
      if (plan_.token_layout.is_split(a))
        add("the number of targets", 1, 1,
            say_.between_ops("the targets", plan_.tokens, reason::without_first(plan_.tokens), a) +
                ": the mean is over all of them");
      add("the squared gradient norm, the loss, and whether ranks were given the same", 1, step_scalars,
          "they are sums over all ranks, and every rank needs them");
    }
  }

  plan_facts const& plan_;
  stage_facts const& stage_;
  reason say_;
  std::vector<explained_collective> found_{};
};

}  // namespace heddle
