// SPDX-License-Identifier: Apache-2.0
#include "answer.hpp"

#include <algorithm>

namespace {

namespace hd = heddle;

/// Appends stages, joined with the range that they follow.
void add_stages(stage_ranges& to, hd::stage_facts const& s) {
  if (!to.empty() && to.back().second + 1 == s.first)
    to.back().second = s.last;
  else
    to.emplace_back(s.first, s.last);
}

/// When in a list a collective has its turn: ops, transfers, gradients by stage, and so on.
std::pair<std::size_t, std::size_t> turn(answered_collective const& c) {
  if (c.what.phase == hd::step_phase::gradients) return {4, c.stages[0].first};
  if (c.what.phase <= hd::step_phase::backward) return {c.what.op.empty() ? 1 : 0, 0};
  return {c.what.phase == hd::step_phase::parameters ? 2 : c.what.phase == hd::step_phase::update ? 5 : 6, 0};
}

}  // namespace

answer::answer(hd::plan_facts const& facts) : plan(facts) {
  for (hd::stage_facts const& s : plan.stage) {
    // What a stage shares with one before it comes in the same order, so what is new follows what was met last.
    std::size_t after = 0;
    hd::explained_stage const explained(plan, s);
    for (hd::explained_collective const& c : explained.collectives()) {
      std::size_t at = 0;
      while (at < collectives.size() && !(collectives[at].what == c && collectives[at].stages.back().second < s.first))
        ++at;
      if (at == collectives.size()) {
        at = s.first == 0 ? collectives.size() : after;
        collectives.insert(collectives.begin() + static_cast<std::ptrdiff_t>(at), {c, {}});
      }
      add_stages(collectives[at].stages, s);
      after = at + 1;
    }
    for (std::size_t n = 0; n < s.parameters.size(); ++n) {
      std::size_t at = 0;
      while (at < parameters.size() && parameters[at].entry.id != s.parameters[n].id) ++at;
      if (at == parameters.size()) parameters.push_back({s.parameters[n], s.shared[n], {}, {}});
      add_stages(parameters[at].stages, s);
      std::string name(s.parameters[n].name.view());
      if (parameters[at].names.empty() || parameters[at].names.back() != name)
        parameters[at].names.push_back(std::move(name));
    }
    traffic.emplace_back(plan.mesh, plan.pipeline_axis, s.first, s.last, plan.traffic);
  }
  std::stable_sort(collectives.begin(), collectives.end(),
                   [](answered_collective const& x, answered_collective const& y) { return turn(x) < turn(y); });
  // The first stage begins with what stands before the layers, the last ends with what follows them.
  auto const take = [&](hd::stage_facts const& s, bool layers) {
    for (hd::op_facts const& o : s.ops)
      if (layers || !o.repeated) ops.push_back({o, {}, {}});
  };
  take(plan.stage[0], true);
  if (plan.stage.size() > 1) take(plan.stage.back(), false);
  std::size_t first_layer = ops.size(), last_layer = ops.size();
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].op.repeated && first_layer == ops.size()) first_layer = i;
    if (ops[i].op.repeated) last_layer = i;
    if (plan.stage.size() == 1)
      ops[i].stages = {{0, 0}};
    else if (ops[i].op.repeated)
      ops[i].stages = {{0, plan.stages - 1}};
    else
      ops[i].stages = {first_layer == ops.size() ? std::pair<std::size_t, std::size_t>{0, 0}
                                                 : std::pair{plan.stages - 1, plan.stages - 1}};
  }
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i == last_layer && plan.stages * ops[i].op.copies > 1 && first_layer != i)
      ops[i].readers.push_back(first_layer);
    if (i + 1 < ops.size()) ops[i].readers.push_back(i + 1);
  }
  for (std::size_t s = 1; s < plan.stages; ++s)
    if (plan.memory(s).total() > plan.memory(fullest).total()) fullest = s;
}

std::vector<answered_collective> answer::of_parameter(answered_parameter const& parameter) const {
  std::vector<answered_collective> found;
  for (answered_collective const& c : collectives) {
    bool is = false;
    for (std::string const& name : parameter.names) {
      is = is || (c.what.op.empty() && c.what.where == name);
      for (std::string const& p : c.what.parameters) is = is || p == name;
    }
    if (is) found.push_back(c);
  }
  return found;
}

std::vector<answered_collective> answer::of_op(answered_op const& o) const {
  std::vector<answered_collective> found;
  auto const is_of = [](answered_collective const& c, hd::op_facts const& op) {
    return c.what.where == op.where && c.what.op == op.name;
  };
  for (answered_collective const& c : collectives) {
    bool is = is_of(c, o.op);
    for (std::size_t r : o.readers)
      is = is || (is_of(c, ops[r].op) && (c.what.what == "the input" || c.what.what == "the input's cotangent"));
    if (is) found.push_back(c);
  }
  return found;
}

std::string answer::stages_text(stage_ranges const& stages) const {
  if (plan.stages == 1) return "every rank";
  if (stages.size() == 1 && stages[0].first == 0 && stages[0].second + 1 == plan.stages) return "every stage";
  std::string out;
  bool several = stages.size() > 1;
  for (auto const& [first, last] : stages) {
    out += (out.empty() ? "" : ", ") + std::to_string(first);
    if (last > first) out += (last == first + 1 ? ", " : "–") + std::to_string(last);
    several = several || last > first;
  }
  return (several ? "stages " : "stage ") + out;
}
