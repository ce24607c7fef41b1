// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <heddle/detail/number_text.hpp>
#include <heddle/detail/text_table.hpp>
#include <heddle/layout/describe.hpp>
#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>
#include <heddle/plan/ledger.hpp>
#include <heddle/plan/policy_notes.hpp>
#include <heddle/plan/value_walk.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle {

/// How a schedule is called in reports: `Schedule::name` where it declares one.
template <class S>
constexpr std::string_view schedule_name() {
  if constexpr (requires { std::string_view(S::name); })
    return S::name;
  else if constexpr (std::same_as<S, gpipe>)
    return "GPipe";
  else if constexpr (std::same_as<S, one_f_one_b>)
    return "1F1B";
  else
    return "a schedule of its own";
}

/// "1/4 (25.0 %)".
inline std::string describe(ratio const& share) {
  ratio const r = share.normalised();
  auto const thousandths = static_cast<std::uint64_t>(r.to_double() * 1000 + 0.5);
  if (r.num == 0) return "0";
  return std::to_string(r.num) + "/" + std::to_string(r.den) + " (" + std::to_string(thousandths / 10) + "." +
         std::to_string(thousandths % 10) + " %)";
}

/// What the ranks in `label` send in a step: ranks whose tables are equal share one.
struct traffic_column {
  std::string label;
  traffic_table sent{};
};

/// The traffic of every rank, equal ones together; where more than `most` differ, of each stage the rank that sends
/// most.
template <class R>
std::vector<traffic_column> traffic_columns(std::size_t most = 8) {
  using partition = stage_partition<R>;
  constexpr mesh_value mesh = R::mesh::value;
  std::vector<std::pair<std::vector<std::size_t>, traffic_table>> groups;
  for (std::size_t rank = 0; rank < mesh.size(); ++rank) {
    traffic_table const t = traffic_of_step<R>(mesh.coordinates_of(rank));
    std::size_t g = 0;
    while (g < groups.size() && !(groups[g].second == t)) ++g;
    if (g == groups.size()) groups.push_back({{}, t});
    groups[g].first.push_back(rank);
  }
  std::vector<traffic_column> columns;
  if (groups.size() > most) {
    for (std::size_t s = 0; s < partition::stages; ++s) {
      traffic_column c{"stage " + std::to_string(s) + ", at most"};
      for (auto const& [ranks, t] : groups) {
        bool here = false;  // ranks of several stages may send alike
        for (std::size_t rank : ranks) here = here || partition::stage_of(mesh.coordinates_of(rank)) == s;
        if (here && t.bytes() >= c.sent.bytes()) c.sent = t;
      }
      columns.push_back(std::move(c));
    }
    return columns;
  }
  for (auto const& [ranks, t] : groups) {
    std::string label = ranks.size() == 1 ? "rank" : "ranks";
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      std::size_t last = i;
      while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
      label += (i == 0 ? " " : ",") + std::to_string(ranks[i]);
      if (last > i) label += (last > i + 1 ? "–" : ",") + std::to_string(ranks[last]);
      i = last;
    }
    columns.push_back({std::move(label), t});
  }
  return columns;
}

/// The most that any rank sends in one step, bytes.
template <class R>
constexpr std::size_t most_sent() {
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < R::mesh::size; ++rank)
    most = detail::larger(most, traffic_of_step<R>(R::mesh::value.coordinates_of(rank)).bytes());
  return most;
}

namespace detail {

/// The parts of a plan's report.
template <class R>
struct plan_report {
  using ledger = basic_ledger<R>;
  using plan = typename R::plan;
  using partition = stage_partition<R>;
  using element = typename R::element;
  static constexpr mesh_value mesh = R::mesh::value;
  static constexpr std::size_t stages = ledger::stages;
  using whole = placed<typename partition::cut::all, typename R::modules, typename R::tokens>;

  /// The bubble is the ledger's: an argument, so that who found it otherwise need not have it simulated.
  static std::string overview(ratio const& bubble) {
    text_table t(9);
    t.add({"mesh", describe(mesh) +
                       (mesh.axes == 0 ? "" : " = " + std::to_string(mesh.size()) + " ranks, the last axis fastest")});
    t.add({"rules",
           describe(mesh, typename R::rules{}) + (mesh.axes == 0 ? "" : "; the first to claim an axis gets it")});
    t.add({"batch", std::to_string(plan::global_batch_size) + " sequences of " + std::to_string(R::model::context) +
                        " tokens a step: " + counted(plan::data_ways, "data rank") + " × " +
                        counted(plan::micro_batches, "micro-batch", "es") + " × " +
                        counted(plan::micro_batch_size, "sequence")});
    t.add({"pipeline", stages == 1
                           ? std::string("none")
                           : counted(stages, "stage") + ", " + std::string(schedule_name<typename plan::schedule>()) +
                                 ", bubble " + describe(bubble) + " of total time"});
    constexpr std::size_t still = ledger::parameters - ledger::trained_parameters;
    t.add({"parameters", grouped_digits(ledger::parameters) + ", " + precision() +
                             (still == 0 ? "" : ", of which " + grouped_digits(still) + " are frozen")});
    if (std::string const padded = padding(); !padded.empty()) t.add({"padding", padded});
    if (std::string const split = states(); !split.empty()) t.add({"zero", split});
    if (std::string const when = reductions<R>(); !when.empty()) t.add({"gradients", when});
    if (std::string const how = logits(); !how.empty()) t.add({"logits", how});
    for (std::string const& idle : idle_policies<R>()) t.add({"policy", idle});
    return t.text("");
  }

  /// The formats: one where all are alike.
  static std::string precision() {
    constexpr precision_policy p = R::precision;
    std::string text(name_of(p.storage));
    auto const add = [&](char const* what, dtype t, bool other) {
      if (other) text += std::string(", ") + what + " " + std::string(name_of(t));
    };
    add("products of", p.compute, p.compute != p.storage);
    add("gradients in", plan::gradient_format, plan::gradient_format != p.storage);
    add("sent in", p.reduction, p.reduction != plan::gradient_format);
    add("master weights in", p.master, p.master != p.storage);
    add("norms, loss and sums in", p.accumulation, p.accumulation != p.storage);
    if (p.scale.initial != 1 || p.scale.adapts())
      text += std::string(p.scale.adapts() ? ", loss scale from " : ", loss scale ") + number_text(p.scale.initial);
    return text;
  }

  /// How the logits stand, where they are more than the plan's `logit_chunk`; else empty.
  static std::string logits() {
    std::string how;
    for_each_op<whole>([&]<class Tag>(Tag, op_site const&) {
      using op = typename Tag::placed;
      constexpr std::size_t bytes = op::place::input_size * sizeof(element);
      if constexpr (op::is_loss && bytes > plan::logit_bytes) {
        how = readable_bytes(bytes) + " a micro-batch, ";
        if constexpr (whole::logit_rows != 0)
          how += "in chunks of " + std::to_string(op::chunk_rows) + " of " + std::to_string(op::all_rows) + " tokens";
        else
          how += "whole and not in chunks of " + readable_bytes(plan::logit_bytes) +
                 ": the loss, or what is just before it in its chain, does not give rows one by one";
      }
    });
    return how;
  }

  /// What `zero` splits, and over which axes; empty without `zero`.
  static std::string states() {
    constexpr std::size_t stage = zero_stage_of<typename plan::rest_policy>;
    if constexpr (stage == 0) {
      return {};
    } else {
      constexpr char const* splits[] = {"", "optimizer state", "optimizer state and gradients",
                                        "optimizer state, gradients and parameters"};
      constexpr unsigned axes = zero_axes_of<typename plan::rest_policy>;
      std::string over;
      for (std::size_t a = 0; a != mesh.axes; ++a)
        if ((axes >> a & 1U) != 0) over += (over.empty() ? "" : "+") + std::string(mesh.axis[a].text);
      return "stage " + std::to_string(stage) + " over " + over + ", " +
             (mesh.size_along(axes) == 1 ? "of 1 rank, which splits nothing"
                                         : std::string("which splits ") + splits[stage]);
    }
  }

  static std::string values() {
    text_table t(9);
    t.add({"value", "layout", "local shape", "moves"});
    t.add({"token ids", describe(mesh, R::tokens::value, R::token_layout),
           describe_extents(mesh, R::tokens::value, R::token_layout), ""});
    std::vector<placed_value> all;
    for_each_value<whole>([&](placed_value const& v) { all.push_back(v); });
    std::string const stream = residual_stream<whole>();
    std::vector<std::string> seen;
    for (std::size_t i = 0; i < all.size(); ++i) {
      placed_value const& v = all[i];
      std::string const layout_text = describe(mesh, v.dims, v.at);
      std::string moves = v.input_path.count > 0 ? "input " + describe(mesh, v.input_path) : "";
      if (v.output_path.count > 0) moves += (moves.empty() ? "" : "; ") + ("output " + describe(mesh, v.output_path));
      bool fresh = true;
      for (auto const& s : seen) fresh = fresh && s != layout_text;
      if (!fresh && moves.empty()) continue;
      seen.push_back(layout_text);
      bool const logits = i + 1 < all.size() && all[i + 1].is_loss;
      std::string name = layout_text == stream ? "residual, after " + v.where : v.where;
      if (logits) name = "logits, " + v.where;
      if (v.is_loss) name = "loss";
      t.add({name, layout_text, describe_extents(mesh, v.dims, v.at), moves});
    }
    return t.text();
  }

  static std::string parameters() {
    text_table t(9);
    t.add({"parameter", "layout", "local shape", "gradient partial", "reduced by"});
    std::vector<name_id> seen;
    auto const add = [&](auto const& entry, std::size_t count, auto const& is_shared) {
      for (std::size_t n = 0; n < count; ++n) {
        parameter_entry const& e = entry[n];
        bool fresh = true;
        for (name_id id : seen) fresh = fresh && id != e.id;
        if (!fresh) continue;
        seen.push_back(e.id);
        std::string reduced = describe(mesh, e.reduction);
        std::string pending = e.trainable ? "" : "frozen";
        for (std::size_t a = 0; a != mesh.axes; ++a)
          if (e.trainable && e.gradient.is_partial(a))
            pending += (pending.empty() ? "" : ", ") + std::string(mesh.axis[a].text);
        if (e.trainable && is_shared(n)) pending += (pending.empty() ? "" : ", ") + std::string("both stages");
        if (e.trainable && is_shared(n))
          reduced += (reduced.empty() ? "" : ", ") + std::string("all_reduce both stages") +
                     (R::precision.reduction == plan::gradient_format
                          ? ""
                          : " in " + std::string(name_of(plan::gradient_format)));  // not in `reduction`
        t.add({std::string(e.name.view()),
               in_use_and_at_rest(e, [&](layout const& l) { return describe(mesh, e.dims, l); }),
               in_use_and_at_rest(e, [&](layout const& l) { return describe_extents(mesh, e.dims, l); }),
               pending.empty() ? "none" : pending, reduced});
      }
    };
    auto const add_stage = [&](auto kind) {
      using p = stage_parameters<R, decltype(kind)::value>;
      add(p::entry, p::count,
          [](std::size_t n) { return shared_parameters<R>::template is_shared<decltype(kind)::value>(n); });
    };
    for (std::size_t s = 0; s < stages; s += (stages == 1 ? 1 : stages - 1)) {
      with_stage_kind<R>(s, [&](auto kind) {
        add_stage(kind);
        return 0;
      });
    }
    return t.text();
  }

  static std::string memory() {
    text_table t(1);
    std::vector<std::string> head{"bytes of a rank"}, total{"total"};
    for (std::size_t s = 0; s < stages; ++s) {
      head.push_back(stages == 1 ? "every rank" : "stage " + std::to_string(s));
      total.push_back(grouped_digits(ledger::memory(s).total()));
    }
    t.add(std::move(head));
    auto const lines = ledger::rows(0);
    for (std::size_t k = 0; k < lines.size(); ++k) {
      memory_row const& line = lines[k];
      std::vector<std::string> row{std::string(name_of(line.category)) + ", " + std::string(line.what) + ", " +
                                   std::string(line.element)};
      std::size_t bytes = 0;
      for (std::size_t s = 0; s < stages; ++s) {
        memory_row const here = ledger::rows(s)[k];
        bytes += here.total();
        row.push_back(grouped_digits(here.total()) +
                      (here.times > 1 ? " (" + std::to_string(here.times) + " ×)" : std::string()));
      }
      if (bytes > 0) t.add(std::move(row));
    }
    t.add(std::move(total));
    return t.text();
  }

  static std::string traffic() {
    auto const columns = traffic_columns<R>();
    bool any = false;
    for (auto const& c : columns) any = any || c.sent.bytes() > 0;
    if (!any) return "  no rank sends anything\n";
    text_table t(2);
    std::vector<std::string> head{"bytes sent in a step", "(calls)"}, total{"total", ""};
    for (auto const& c : columns) {
      head.push_back(c.label);
      total.push_back(grouped_digits(c.sent.bytes()));
    }
    t.add(std::move(head));
    for (std::size_t a = 0; a != mesh.axes; ++a)
      for (std::size_t k = 0; k < comm::operation_count; ++k) {
        auto const op = static_cast<comm::operation>(k);
        std::vector<std::string> row{std::string(mesh.axis[a].text) + " " + comm::name_of(op), ""};
        std::size_t calls = 0, bytes = 0;
        for (auto const& c : columns) {
          calls = larger(calls, c.sent.of(a, op).calls);
          bytes += c.sent.of(a, op).bytes;
          row.push_back(grouped_digits(c.sent.of(a, op).bytes));
        }
        row[1] = "(" + std::to_string(calls) + ")";
        if (bytes > 0) t.add(std::move(row));
      }
    t.add(std::move(total));
    return t.text();
  }

 private:
  /// What `text` says of the layout that ops read; and of those in which the parameter and its optimizer state rest,
  /// where they are others.
  template <class Text>
  static std::string in_use_and_at_rest(parameter_entry const& e, Text const& text) {
    std::string out = text(e.compute);
    if (!(e.rest == e.compute)) out += ", at rest " + text(e.rest);
    if (e.trainable && !(e.state_rest == e.rest)) out += ", state " + text(e.state_rest);
    return out;
  }
  static std::string counted(std::size_t n, std::string const& what, char const* plural = "s") {
    return std::to_string(n) + " " + what + (n == 1 ? "" : plural);
  }
  /// The layout of what runs from block to block, or nothing where no block is repeated.
  template <class Whole>
  static std::string residual_stream() {
    if constexpr (partition::cut::repeats == 1) {
      using block = typename Whole::template child<partition::cut::at>;
      return describe(mesh, R::stored(block::input::value), block::input_layout);
    } else {
      return {};
    }
  }
  static std::string padding() {
    std::string out;
    dimension_list all{};
    for (auto const& u : whole::uses)
      for (std::size_t k = 0; k < u.dims.rank; ++k) {
        dimension const& d = u.dims.dim[k];
        if (d.size == d.stored || all.has(d.name)) continue;
        all.append(d);
        out += (out.empty() ? "" : ", ") + std::string(d.text) + " " + std::to_string(d.size) + " is stored as " +
               std::to_string(d.stored);
      }
    return out;
  }
};

}  // namespace detail

/// A plan for a model as text: mesh, rules, batch, pipeline, the layout of every kind of tensor, memory and traffic.
/// All numbers are the plan's constants.
template <class R>
std::string describe_plan() {
  using report = detail::plan_report<R>;
  static_assert(sizeof(legal<R>) > 0);
  return report::overview(report::ledger::bubble) + "\nlayouts (dimension:axes that split it; elsewhere replicated)\n" +
         report::values() + '\n' + report::parameters() + "\nmemory\n" + report::memory() + "\ntraffic\n" +
         report::traffic();
}

}  // namespace heddle
