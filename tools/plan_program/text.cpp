// SPDX-License-Identifier: Apache-2.0
#include <heddle/detail/text_table.hpp>

#include "answer.hpp"

namespace {

namespace hd = heddle;
using hd::detail::grouped_digits;
using hd::detail::readable_bytes;
using hd::detail::text_table;

/// Stages that a table has room for: both ends with their neighbours, the middle, and the one that needs most.
std::vector<std::size_t> shown_stages(answer const& a) {
  std::vector<std::size_t> shown;
  std::size_t const n = a.plan.stages;
  for (std::size_t s = 0; s < n; ++s)
    if (n <= 6 || s < 2 || s == n / 2 || s + 2 >= n || s == a.fullest) shown.push_back(s);
  return shown;
}

/// The ledger: each category, and under it line by line what it is, of which element type, and until when where it
/// lives less long than the trainer.
std::string memory_text(answer const& a) {
  auto const shown = shown_stages(a);
  std::vector<std::vector<hd::memory_row>> lines;  // of each shown stage, the same ones in the same order
  for (std::size_t s : shown) lines.push_back(a.plan.memory_rows(s));
  text_table t(1);
  std::vector<std::string> head{"bytes of a rank"}, total{"total"};
  for (std::size_t s : shown) {
    head.push_back(a.plan.stages == 1 ? "every rank" : "stage " + std::to_string(s));
    total.push_back(grouped_digits(a.plan.memory(s).total()));
  }
  t.add(std::move(head));
  for (std::size_t c = 0; c < hd::memory_categories; ++c) {
    auto const category = static_cast<hd::memory_category>(c);
    std::vector<std::string> row{std::string(name_of(category))};
    std::size_t bytes = 0;
    for (std::size_t s : shown) {
      bytes += a.plan.memory(s).of(category);
      row.push_back(grouped_digits(a.plan.memory(s).of(category)));
    }
    if (bytes == 0) continue;
    t.add(std::move(row));
    for (std::size_t k = 0; k < lines.front().size(); ++k) {
      if (lines.front()[k].category != category) continue;
      row = {"  " + std::string(lines.front()[k].what) + ", " + std::string(lines.front()[k].element)};
      bytes = 0;
      for (auto const& of_stage : lines) {
        hd::memory_row const& line = of_stage[k];
        bytes += line.total();
        row.push_back(grouped_digits(line.total()) +
                      (line.bytes > 0 && line.times > 1 ? " (" + grouped_digits(line.times) + " ×)" : ""));
      }
      if (bytes > 0) t.add(std::move(row));
    }
  }
  t.add(std::move(total));
  std::string const most = readable_bytes(a.plan.memory(a.fullest).total());
  std::string out = t.text();
  if (a.plan.stages == 1)
    out += "  in all " + most + "\n";
  else
    out += "  most on stage " + std::to_string(a.fullest) + ": " + most +
           (shown.size() < a.plan.stages ? "; --json has all " + std::to_string(a.plan.stages) + " stages" : "") + "\n";
  return out;
}

std::string traffic_text(answer const& a) {
  std::vector<hd::traffic_table> most;
  std::size_t any = 0;
  for (auto const& c : a.traffic) any += most.emplace_back(c.most()).bytes();
  if (any == 0) return "  no rank sends anything\n";
  text_table t(2);
  std::vector<std::string> head{"bytes sent in a step", "(calls)"}, total{"total", ""},
      least{"least of these ranks", ""};
  bool differ = false;
  for (std::size_t k = 0; k < most.size(); ++k) {
    hd::stage_facts const& s = a.plan.stage[k];
    head.push_back(a.stages_text({{s.first, s.last}}));
    total.push_back(grouped_digits(most[k].bytes()));
    std::size_t const bytes = a.traffic[k].least().bytes();
    differ = differ || bytes != most[k].bytes();
    least.push_back(grouped_digits(bytes));
  }
  t.add(std::move(head));
  for (std::size_t axis = 0; axis != a.plan.mesh.axes; ++axis)
    for (std::size_t k = 0; k < hd::comm::operation_count; ++k) {
      auto const op = static_cast<hd::comm::operation>(k);
      std::vector<std::string> row{std::string(a.plan.mesh.axis[axis].text) + " " + hd::comm::name_of(op), ""};
      std::size_t calls = 0, bytes = 0;
      for (auto const& m : most) {
        calls = m.of(axis, op).calls > calls ? m.of(axis, op).calls : calls;
        bytes += m.of(axis, op).bytes;
        row.push_back(grouped_digits(m.of(axis, op).bytes));
      }
      row[1] = "(" + grouped_digits(calls) + ")";
      if (bytes > 0) t.add(std::move(row));
    }
  t.add(std::move(total));
  if (differ) t.add(std::move(least));
  return t.text() + (differ ? "  of the rank that sends most, as chunks are not all of one length\n" : "");
}

std::string collective(answer const& a, hd::explained_collective const& c) {
  return std::string(hd::comm::name_of(c.operation)) + " " + std::string(a.plan.mesh.axis[c.axis].text);
}

/// "1,024 calls, 187,904,819,200 bytes (183,500,800 each)".
std::string amount(hd::explained_collective const& c) {
  std::string out =
      grouped_digits(c.calls) + (c.calls == 1 ? " call, " : " calls, ") + grouped_digits(c.bytes) + " bytes";
  if (c.calls > 1 && c.bytes % c.calls == 0) out += " (" + grouped_digits(c.bytes / c.calls) + " each)";
  return out;
}

std::string subject(hd::explained_collective const& c) {
  return c.where + (c.where.empty() || c.op.empty() ? "" : " ") + (c.op.empty() ? "" : "(" + c.op + ")");
}

std::string block(answer const& a, std::vector<answered_collective> const& some) {
  if (some.empty()) return "  nothing moves it\n";
  std::string out;
  for (auto const& [c, stages] : some) {
    out += "  " + collective(a, c) + ", " + std::string(name_of(c.phase)) + ": " + c.what + ", " + subject(c) + "\n";
    out += "      " + a.stages_text(stages) + ": " + amount(c) + "\n";
    if (!c.from.empty()) out += "      " + c.from + " → " + c.to + "\n";
    out += "      why: " + c.why + "\n";
  }
  return out;
}

/// A row of a table of layouts: where a tensor lies, its local shape and bytes.
void add_layout(text_table& t, answer const& a, std::string name, hd::dimension_list const& dims, hd::layout const& l,
                std::size_t element_bytes, std::size_t times = 1) {
  t.add({std::move(name), describe(a.plan.mesh, dims, l), describe_extents(a.plan.mesh, dims, l),
         grouped_digits(times * local_size(a.plan.mesh, dims, l) * element_bytes)});
}

std::string sizes(hd::dimension_list const& dims) {
  std::string out;
  for (std::size_t k = 0; k < dims.rank; ++k)
    out += (k == 0 ? "" : " × ") + std::string(dims.dim[k].text) + " " + std::to_string(dims.dim[k].size) +
           (dims.dim[k].stored != dims.dim[k].size ? " (stored as " + std::to_string(dims.dim[k].stored) + ")" : "");
  return dims.rank == 0 ? "a scalar" : out;
}

}  // namespace

std::string report_text(answer const& a) {
  return a.plan.overview + "\nlayouts (dimension:axes that split it; elsewhere replicated)\n" + a.plan.values + "\n" +
         a.plan.parameter_rows + "\nmemory\n" + memory_text(a) + "\ntraffic\n" + traffic_text(a);
}

std::string why_text(answer const& a) {
  text_table t(5);
  t.add({"collective", "phase", "of", "op or parameter", "on", "calls", "bytes", "why"});
  std::vector<std::string> reasons;
  for (auto const& [c, stages] : a.collectives) {
    if (c.operation == hd::comm::operation::receive) continue;  // its send has the bytes
    std::size_t r = 0;
    while (r < reasons.size() && reasons[r] != c.why) ++r;
    if (r == reasons.size()) reasons.push_back(c.why);
    t.add({collective(a, c), std::string(name_of(c.phase)), c.what, subject(c), a.stages_text(stages),
           grouped_digits(c.calls), grouped_digits(c.bytes), std::to_string(r + 1)});
  }
  if (reasons.empty()) return "collectives\n  none: one rank does everything\n";
  std::string out = "collectives of a step, by the first rank of each stage\n" + t.text() + "\nwhy\n";
  for (std::size_t r = 0; r < reasons.size(); ++r) out += "  " + std::to_string(r + 1) + "  " + reasons[r] + "\n";
  return out;
}

std::string parameter_text(answer const& a, answered_parameter const& p) {
  hd::parameter_entry const& e = p.entry;
  std::string names;
  for (std::string const& name : p.names) names += (names.empty() ? "" : ", ") + name;
  std::string out =
      "parameter " + names + ": " + sizes(e.dims) + ", " + grouped_digits(e.dims.size()) + " elements\n  on " +
      a.stages_text(p.stages) +
      (e.stacked ? ", " + std::to_string(e.copies) + (e.copies == 1 ? " layer" : " layers") + " each" : "") +
      (e.tied ? "; tied" : "") + (e.trainable ? "" : "; frozen") +
      (p.shared ? ", shared by the pipeline's two ends" : "") + "\n  rest layouts by " + a.plan.rest + "\n\n";
  text_table t(3);
  t.add({"of a rank", "layout", "local shape", "bytes"});
  std::size_t const bytes = a.plan.element_bytes;
  add_layout(t, a, "at rest", e.dims, e.rest, bytes);
  add_layout(t, a, "as ops read it", e.dims, e.compute, bytes);
  if (e.trainable) {
    add_layout(t, a, "gradient, as backward leaves it", e.dims, e.gradient, bytes);
    add_layout(t, a, "gradient, reduced", e.dims, e.gradient_rest, a.plan.gradient_bytes);
    add_layout(t, a, "optimizer state, " + std::to_string(a.plan.optimizer_slots) + " of", e.dims, e.state_rest,
               a.plan.master_bytes, a.plan.optimizer_slots);
    if (a.plan.has_master) add_layout(t, a, "master weights", e.dims, e.state_rest, a.plan.master_bytes);
  }
  return out + t.text() + "\n" + block(a, a.of_parameter(p));
}

std::string op_text(answer const& a, answered_op const& o) {
  hd::op_facts const& op = o.op;
  std::string readers;
  for (std::size_t r : o.readers)
    readers += (readers.empty() ? "" : ", ") + a.ops[r].op.where + " (" + a.ops[r].op.name + ")";
  std::string out =
      "activation " + op.where + " (" + op.name + "): " + sizes(op.out) + "\n  on " + a.stages_text(o.stages) +
      (op.repeated ? ", " + std::to_string(op.copies) + (op.copies == 1 ? " layer" : " layers") + " each" : "") +
      "; read by " + (readers.empty() ? "nothing" : readers) + "\n\n";
  text_table t(3);
  t.add({"of a rank", "layout", "local shape", "bytes"});
  hd::mesh_value const& mesh = a.plan.mesh;
  std::size_t const bytes = a.plan.element_bytes, in_bytes = op.reads_tokens ? sizeof(std::int32_t) : bytes;
  add_layout(t, a, "input, between ops", op.in, op.input_own, in_bytes);
  add_layout(t, a, "input, as the op reads it", op.in, op.input_compute, in_bytes);
  t.add({"the op's iteration space", describe(mesh, op.op.space, op.op.placed),
         describe_extents(mesh, op.op.space, op.op.placed), ""});
  add_layout(t, a, "output, as it comes out", op.out, op.output_pending, bytes);
  add_layout(t, a, "output, between ops", op.out, op.output_own, bytes);
  add_layout(t, a, "output's cotangent, as it is read", op.out, cotangent(op.output_pending), bytes);
  if (!op.reads_tokens) add_layout(t, a, "input's cotangent, as it comes out", op.in, op.input_cotangent, bytes);
  return out + t.text() + "\n" + block(a, a.of_op(o));
}
