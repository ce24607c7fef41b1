// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/detail/number_text.hpp>
#include <heddle/detail/text_table.hpp>
#include <heddle/plan/gradient_buckets.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <string>
#include <vector>

namespace heddle::detail {

// What a report says of a plan's policies: what their choices cost, and which of them change nothing.

/// What one reduction of all gradients sends: the most of the first ranks of the stages, bytes; of it what goes in
/// buckets alone, where only that is asked for.
template <class R>
constexpr std::size_t reduction_bytes(bool in_buckets_alone = false) {
  using partition = stage_partition<R>;
  std::size_t most = 0;
  for (std::size_t s = 0; s < partition::stages; ++s) {
    coordinates at{};
    if (partition::stages > 1) at[partition::axis] = s;
    traffic_table sent{};
    std::size_t const passes = with_stage_kind<R>(s, [&](auto kind) {
      using buckets = gradient_buckets<R, decltype(kind)::value>;
      if (!in_buckets_alone) buckets::count_step(sent, at);
      for (std::size_t k = 0; in_buckets_alone && k != buckets::count; ++k) buckets::count_class(sent, at, k);
      return buckets::passes;
    });
    most = larger(most, sent.bytes() / passes);
  }
  return most;
}

/// The bytes of gradients of the stage that has most, were they reduced as soon as a unit's are complete, or after the
/// last micro-batch.
template <class R>
constexpr std::size_t gradient_bytes(bool at_once) {
  std::size_t most = 0;
  for (std::size_t s = 0; s < stage_partition<R>::stages; ++s)
    most = larger(most, with_stage_kind<R>(s, [&](auto kind) {
                    return stage_parameters<R, decltype(kind)::value>::gradient_bytes(at_once);
                  }));
  return most;
}

/// When accumulated gradients are reduced and what either choice costs; empty where there is none.
template <class R>
std::string reductions() {
  using plan = typename R::plan;
  std::size_t const bytes = plan::micro_batches == 1 ? 0 : reduction_bytes<R>();
  if (bytes == 0) return {};
  bool const once = plan::reduction == gradient_reduction::per_step;
  std::string const times = std::to_string(plan::micro_batches), sent = grouped_digits(bytes) + " bytes",
                    kept = grouped_digits(gradient_bytes<R>(!once)) + " bytes of gradients",
                    other = grouped_digits(gradient_bytes<R>(once));
  return once ? "reduced once, after the last of " + times + " micro-batches, sending " + sent + ", and a rank keeps " +
                    kept + "; reduce_gradients<per_micro_batch> keeps " + other + " and sends after each"
              : "reduced after each of " + times + " micro-batches, sending " + times + " × " + sent +
                    ", and a rank keeps " + kept + "; reduce_gradients<per_step> keeps " + other + " and sends once";
}

/// The policies that the plan gives and that change nothing in it, and why. They are not refused: a plan's other axes
/// may be sizes that a program is given, of which one is 1.
template <class R>
std::vector<std::string> idle_policies() {
  using plan = typename R::plan;
  constexpr mesh_value mesh = R::mesh::value;
  std::vector<std::string> idle;
  if (plan::gives_bucket && reduction_bytes<R>(true) == 0)
    idle.push_back("bucket<" + std::to_string(plan::bucket_bytes) + "> has no effect: no gradient travels in buckets");
  if (plan::gives_reduction && reduction_bytes<R>() == 0)
    idle.push_back(plan::reduction == gradient_reduction::per_step
                       ? "reduce_gradients<per_step> has no effect: no gradient is a sum over ranks"
                       : "reduce_gradients<per_micro_batch> has no effect but on memory, which has a unit's gradients "
                         "twice: no gradient is a sum over ranks");
  else if (plan::gives_reduction && plan::micro_batches == 1 && plan::reduction == gradient_reduction::per_step)
    idle.push_back("reduce_gradients<per_step> has no effect: a step has one micro-batch");
  constexpr std::size_t tensor = mesh.index_of(id_v<tp>);
  if (plan::gives_sequence && (tensor == mesh.axes || mesh.axis[tensor].size == 1))
    idle.push_back(std::string("sequence_parallel<") + (plan::sequence_choice::value ? "true" : "false") +
                   "> has no effect: the mesh has " +
                   (tensor == mesh.axes ? "no axis tp, over which it splits the sequence" : "one rank along tp"));
  if (plan::gives_pipeline && stage_partition<R>::stages == 1 && plan::micro_batches == 1)
    idle.push_back("pipeline<Schedule> has no effect: there is one stage, and one micro-batch");
  return idle;
}

}  // namespace heddle::detail
