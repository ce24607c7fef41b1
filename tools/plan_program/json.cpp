// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "answer.hpp"

namespace {

namespace hd = heddle;
using json = nlohmann::ordered_json;

json layout_json(answer const& a, hd::dimension_list const& dims, hd::layout const& l) {
  json shape = json::array();
  auto const extent = local_extents(a.plan.mesh, dims, l);
  for (std::size_t k = 0; k < dims.rank; ++k) shape.push_back(extent[k]);
  return {{"layout", describe(a.plan.mesh, dims, l)}, {"local_shape", shape}};
}

json dims_json(hd::dimension_list const& dims) {
  json out = json::array();
  for (std::size_t k = 0; k < dims.rank; ++k)
    out.push_back({{"name", dims.dim[k].text}, {"size", dims.dim[k].size}, {"stored", dims.dim[k].stored}});
  return out;
}

json sent_json(std::array<hd::traffic_table::entry, hd::comm::operation_count> const& sent) {
  json out = json::object();
  for (std::size_t k = 0; k < sent.size(); ++k)
    if (sent[k].calls != 0)
      out[hd::comm::name_of(static_cast<hd::comm::operation>(k))] = {{"calls", sent[k].calls},
                                                                     {"bytes", sent[k].bytes}};
  return out;
}

json memory_json(answer const& a) {
  json out = json::array();
  for (std::size_t s = 0; s < a.plan.stages; ++s) {
    hd::memory_table const m = a.plan.memory(s);
    json bytes;
    for (std::size_t c = 0; c < hd::memory_categories; ++c) {
      auto const category = static_cast<hd::memory_category>(c);
      bytes[std::string(name_of(category))] = m.of(category);
    }
    json rows = json::array();
    for (hd::memory_row const& row : a.plan.memory_rows(s))
      if (row.bytes != 0)
        rows.push_back({{"category", std::string(name_of(row.category))},
                        {"what", std::string(row.what)},
                        {"element", std::string(row.element)},
                        {"bytes", row.bytes},
                        {"times", row.times}});
    out.push_back({{"stage", s},
                   {"micro_batches_in_flight", a.plan.pipeline.peak_in_flight[s]},
                   {"bytes", bytes},
                   {"rows", rows},
                   {"total", m.total()}});
  }
  return out;
}

json traffic_json(answer const& a) {
  json out = json::array();
  for (std::size_t k = 0; k < a.traffic.size(); ++k) {
    json axes = json::object();
    for (std::size_t axis = 0; axis != a.plan.mesh.axes; ++axis) {
      json classes = json::array();
      for (hd::traffic_class const& c : a.traffic[k].on(axis))
        classes.push_back({{"positions", {c.first, c.last}}, {"sent", sent_json(c.sent)}});
      axes[std::string(a.plan.mesh.axis[axis].text)] = classes;
    }
    out.push_back({{"stages", {a.plan.stage[k].first, a.plan.stage[k].last}},
                   {"most_bytes", a.traffic[k].most().bytes()},
                   {"least_bytes", a.traffic[k].least().bytes()},
                   {"axes", axes}});
  }
  return out;
}

json parameters_json(answer const& a) {
  json out = json::array();
  for (answered_parameter const& p : a.parameters) {
    hd::parameter_entry const& e = p.entry;
    out.push_back({{"name", e.name.view()},
                   {"names", p.names},
                   {"dimensions", dims_json(e.dims)},
                   {"elements", e.dims.size()},
                   {"stages", p.stages},
                   {"layers_of_a_rank", e.stacked ? e.copies : 0},
                   {"tied", e.tied},
                   {"decays", e.decays},
                   {"trained", e.trainable},
                   {"rest", layout_json(a, e.dims, e.rest)},
                   {"compute", layout_json(a, e.dims, e.compute)}});
    if (!e.trainable) continue;  // neither gradient nor state
    out.back()["gradient"] = layout_json(a, e.dims, e.gradient);
    out.back()["gradient_rest"] = layout_json(a, e.dims, e.gradient_rest);
    out.back()["state_rest"] = layout_json(a, e.dims, e.state_rest);
  }
  return out;
}

json activations_json(answer const& a) {
  json out = json::array();
  for (answered_op const& o : a.ops) {
    hd::op_facts const& op = o.op;
    json readers = json::array();
    for (std::size_t r : o.readers) readers.push_back(r);
    out.push_back({{"name", op.where},
                   {"op", op.name},
                   {"stages", o.stages},
                   {"layers_of_a_rank", op.repeated ? op.copies : 0},
                   {"dimensions", dims_json(op.out)},
                   {"input", layout_json(a, op.in, op.input_own)},
                   {"input_compute", layout_json(a, op.in, op.input_compute)},
                   {"space", layout_json(a, op.op.space, op.op.placed)},
                   {"output_pending", layout_json(a, op.out, op.output_pending)},
                   {"output", layout_json(a, op.out, op.output_own)},
                   {"output_cotangent", layout_json(a, op.out, cotangent(op.output_pending))},
                   {"readers", readers}});
    if (!op.reads_tokens) out.back()["input_cotangent"] = layout_json(a, op.in, op.input_cotangent);
  }
  return out;
}

json collectives_json(answer const& a) {
  json out = json::array();
  for (auto const& [c, stages] : a.collectives) {
    json one = {{"where", c.where},
                {"op", c.op},
                {"phase", name_of(c.phase)},
                {"what", c.what},
                {"operation", hd::comm::name_of(c.operation)},
                {"axis", a.plan.mesh.axis[c.axis].text},
                {"stages", stages},
                {"calls", c.calls},
                {"bytes", c.bytes},
                {"from", c.from},
                {"to", c.to},
                {"why", c.why}};
    if (!c.parameters.empty()) one["parameters"] = c.parameters;
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

std::string json_text(answer const& a, char const* request) {
  hd::plan_facts const& p = a.plan;
  json mesh = json::array();
  for (std::size_t axis = 0; axis != p.mesh.axes; ++axis)
    mesh.push_back({{"axis", p.mesh.axis[axis].text}, {"size", p.mesh.axis[axis].size}});
  hd::ratio const bubble = p.pipeline.bubble_of_total.normalised();
  json const out = {{"format", "heddle plan 1"},
                    {"request", json::parse(request)},
                    {"mesh", mesh},
                    {"ranks", p.mesh.size()},
                    {"rules", p.rule_names},
                    {"batch",
                     {{"global_batch", p.global_batch_size},
                      {"data_ranks", p.data_ways},
                      {"micro_batches", p.micro_batches},
                      {"micro_batch", p.micro_batch_size},
                      {"context", p.context}}},
                    {"pipeline",
                     {{"stages", p.stages},
                      {"schedule", p.schedule},
                      {"bubble", {{"numerator", bubble.num}, {"denominator", bubble.num == 0 ? 1 : bubble.den}}}}},
                    {"parameters", p.parameters},
                    {"trained_parameters", p.trained_parameters},
                    {"element_bytes", p.element_bytes},
                    {"gradient_bytes", p.gradient_bytes},
                    {"travelling_gradient_bytes", p.travelling_bytes},
                    {"optimizer_state_bytes", p.master_bytes},
                    {"rest_layouts_by", p.rest},
                    {"peak_bytes", p.memory(a.fullest).total()},
                    {"memory", memory_json(a)},
                    {"traffic", traffic_json(a)},
                    {"parameter", parameters_json(a)},
                    {"activation", activations_json(a)},
                    {"collective", collectives_json(a)}};
  return out.dump(1) + "\n";
}
