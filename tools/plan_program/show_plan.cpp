// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <heddle/detail/file.hpp>
#include <heddle/error.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "answer.hpp"
#include "plan_program.hpp"

namespace {

namespace hd = heddle;

struct options {
  bool why = false;
  std::vector<std::string> parameters, activations;
  std::string json;
  std::size_t fits = 0;
};

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    std::string_view const option = argv[i];
    if (option == "--why") {
      o.why = true;
      continue;
    }
    if (i + 1 == argc) throw hd::error(std::string(option) + ": needs a value; see tools/plan --help");
    std::string_view const value = argv[++i];
    if (option == "--parameter")
      o.parameters.emplace_back(value);
    else if (option == "--activation")
      o.activations.emplace_back(value);
    else if (option == "--json")
      o.json = value;
    else if (option == "--fits" &&
             std::from_chars(value.data(), value.data() + value.size(), o.fits).ptr == value.data() + value.size())
      continue;
    else
      throw hd::error("there is no option '" + std::string(option) + "' with value '" + std::string(value) +
                      "'; see tools/plan --help");
  }
  return o;
}

/// "h.attn.qkv, h.attn, …": each name once.
class name_list {
 public:
  void add(std::string const& name) {
    bool fresh = !name.empty();
    for (auto const& n : names_) fresh = fresh && n != name;
    if (fresh) names_.push_back(name);
  }
  [[nodiscard]] std::string text() const {
    std::string out;
    for (auto const& n : names_) out += (out.empty() ? "" : ", ") + n;
    return out;
  }

 private:
  std::vector<std::string> names_;
};

std::string asked_text(answer const& a, options const& o) {
  std::string out;
  auto const add = [&](std::string const& text) { out += (out.empty() ? "" : "\n") + text; };
  for (std::string const& asked : o.parameters) {
    name_list known;
    bool found = false;
    for (answered_parameter const& p : a.parameters)
      for (std::string const& name : p.names) {
        known.add(name);
        if (name != asked) continue;
        add(parameter_text(a, p));
        found = true;
      }
    if (!found) throw hd::error("--parameter: there is no '" + asked + "'; the parameters are " + known.text());
  }
  for (std::string const& asked : o.activations) {
    name_list known;
    bool found = false;
    for (answered_op const& one : a.ops) {
      known.add(one.op.where);
      if (one.op.where != asked && one.op.where + " " + one.op.name != asked) continue;
      add(op_text(a, one));
      found = true;
    }
    if (!found) throw hd::error("--activation: there is no '" + asked + "'; the activations are " + known.text());
  }
  if (o.why) add(why_text(a));
  return out;
}

/// The sentence with which `fits<…>` refuses a plan, or nothing.
std::string memory_fault(answer const& a, std::size_t limit) {
  hd::memory_table const m = a.plan.memory(a.fullest);
  if (limit == 0 || m.total() <= limit) return {};
  auto const number = [](std::size_t n) { return std::to_string(n); };
  std::string parts;
  for (std::size_t c = 0; c < hd::memory_categories; ++c) {
    std::string name(name_of(static_cast<hd::memory_category>(c)));
    std::replace(name.begin(), name.end(), ' ', '_');
    parts += ", for_" + name + "<" + number(m.bytes[c]) + ">";
  }
  return "plan_error<fits<" + number(limit) + ">, must_not_be_less_than_the_bytes_of_a_rank<" + number(m.total()) +
         ">, on_pipeline_stage<" + number(a.fullest) + ">" + parts +
         ", split_more_or_accumulate_smaller_micro_batches>";
}

}  // namespace

int show_plan(int argc, char** argv, hd::plan_facts const& plan, char const* request) try {
  options const o = parse(argc, argv);
  if (plan.pipeline.fault)
    throw hd::error("--schedule: is not sound for " + std::to_string(plan.stages) + " stages and " +
                    std::to_string(plan.micro_batches) + " micro-batches; choose another");
  answer const a(plan);
  std::string const asked = asked_text(a, o);
  if (!o.json.empty()) {
    std::string const text = json_text(a, request);
    if (o.json == "-") {
      std::fputs(text.c_str(), stdout);
    } else {
      hd::detail::atomic_file file(o.json);
      file.write(text);
      file.commit();
    }
  }
  if (o.json != "-") std::fputs((asked.empty() ? report_text(a) : asked).c_str(), stdout);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    throw hd::error("standard output: cannot be written; check where it goes, and the space there");
  std::string const fault = memory_fault(a, o.fits);
  if (!fault.empty()) std::fprintf(stderr, "tools/plan: the plan cannot work: %s\n", fault.c_str());
  return fault.empty() ? 0 : 1;
} catch (hd::error const& e) {
  std::fprintf(stderr, "tools/plan: %s\n", e.what());
  return 2;
}
