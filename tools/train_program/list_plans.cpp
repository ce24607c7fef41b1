// SPDX-License-Identifier: Apache-2.0
// The plans of plans.hpp for one model, with their constants: compiled with HEDDLE_MODEL and HEDDLE_PLANS.
#include <cstdio>
#include <heddle/heddle.hpp>
#include <type_traits>

#include "models.hpp"
#include "plans.hpp"

namespace {

namespace hd = heddle;
using model = models::HEDDLE_MODEL;

/// Why a plan cannot train the model, in words.
template <class Fault>
std::string reason = "the model does not fit the plan";
template <class Name, std::size_t Size, std::size_t Ways, class... Rest>
std::string reason<hd::plan_error<hd::size_of<Name, Size>, hd::must_be_a_multiple_of<Ways>, Rest...>> =
    std::string(Name::name) + " is " + std::to_string(Size) + " and must be a multiple of " + std::to_string(Ways);

template <class Plan>
void add(hd::detail::text_table& table, std::string& illegal) {
  static_assert(
      Plan::global_batch_size == plans::sequences::value,
      "plans.hpp: the global batch of 'Plan' must be 'sequences', so that curves compare; give it that policy");
  using R = hd::resolved<model, Plan, hd::host_backend>;
  std::string const name(Plan::name);
  std::string const mesh = hd::describe(Plan::mesh::value);
  if constexpr (!std::is_void_v<hd::fault_of_plan<R>>) {
    illegal += name + " cannot train it: " + reason<hd::fault_of_plan<R>> + "\n";
  } else {
    using ledger = hd::basic_ledger<R>;
    hd::ratio const bubble = ledger::bubble.normalised();
    table.add({name, mesh, std::to_string(Plan::micro_batches), hd::detail::readable_bytes(ledger::peak_bytes),
               hd::detail::readable_bytes(hd::most_sent<R>()),
               bubble.num == 0 ? "0" : std::to_string(bubble.num) + "/" + std::to_string(bubble.den)});
  }
}

template <class First, class... Others>
void list() {
  hd::detail::text_table table(2);
  table.add({"plan", "mesh", "micro-batches", "memory of a rank", "a rank sends a step", "bubble"});
  std::string illegal;
  add<First>(table, illegal);
  (add<Others>(table, illegal), ...);
  std::printf("%s: %zu sequences of %zu tokens a step, fp32; memory and traffic of the rank that needs most\n\n%s%s",
              std::string(model::name).c_str(), First::global_batch_size, model::context, table.text("").c_str(),
              illegal.c_str());
}

}  // namespace

int main() { list<HEDDLE_PLANS>(); }
