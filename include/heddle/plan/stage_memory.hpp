// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/pipeline/schedule_table.hpp>
#include <heddle/plan/gathered_parameters.hpp>
#include <heddle/plan/gradient_buckets.hpp>
#include <string_view>

namespace heddle {

/// What a rank's memory is for. Each is one arena, but gradients are three: unreduced of the unit that computes, added
/// up over micro-batches, and reduced. Where two of them are one, or there are none of a kind, its arena is empty.
enum class memory_category : unsigned char {
  parameters,           ///< at rest
  gathered_parameters,  ///< of the unit that computes and of the next, in compute layout
  gradients,
  optimizer_state,
  buckets,      ///< gradients on their way
  activations,  ///< per micro-batch in flight: what backward reads, and the stage's boundary values
  scratch,      ///< free between calls: values in other layouts, cotangents, the kernels' own needs
  tokens        ///< token ids and targets of one step
};
inline constexpr std::size_t memory_categories = 8;
constexpr std::string_view name_of(memory_category c) {
  constexpr std::string_view names[] = {"parameters", "gathered parameters", "gradients", "optimizer state",
                                        "buckets",    "activations",         "scratch",   "tokens"};
  return names[static_cast<std::size_t>(c)];
}

/// Bytes of one rank, by category: the arenas' own table, so what is predicted is what is allocated.
struct memory_table {
  std::array<std::size_t, memory_categories> bytes{};
  [[nodiscard]] constexpr std::size_t of(memory_category c) const { return bytes[static_cast<std::size_t>(c)]; }
  [[nodiscard]] constexpr std::size_t total() const {
    std::size_t n = 0;
    for (std::size_t b : bytes) n += b;
    return n;
  }
  friend constexpr bool operator==(memory_table const&, memory_table const&) = default;
};

/// Where everything of one stage lies: sizes and offsets in elements, all constants.
template <class R, stage_kind Kind>
struct stage_memory {
  using element = typename R::element;
  using partition = stage_partition<R>;
  using stage = typename partition::template stage<Kind>;
  using parameters = stage_parameters<R, Kind>;
  static constexpr mesh_value mesh = R::mesh::value;
  static constexpr bool is_first = partition::is_first(Kind);
  static constexpr bool is_last = partition::is_last(Kind);

  template <class Dims>
  static constexpr std::size_t own_size(layout const& l) {
    return local_size(mesh, R::stored(Dims::value), l);
  }
  static constexpr std::size_t input_size = is_first ? 0 : own_size<typename stage::input>(stage::input_layout);
  static constexpr std::size_t output_size = own_size<typename stage::output>(stage::output_layout);

  // One micro-batch's slot: what modules save, then the boundary values and the gradient that is sent back.
  static constexpr std::size_t input = stage::saved;
  static constexpr std::size_t output = input + slot<element>(input_size);
  static constexpr std::size_t input_gradient = output + slot<element>(output_size);
  static constexpr std::size_t slot_elements = input_gradient + slot<element>(input_size);

  // The cotangent of the stage's output (received, or the loss' seed), of as many micro-batches as the schedule
  // receives ahead, then scratch.
  static constexpr std::size_t output_gradient_elements = slot<element>(output_size);
  static constexpr std::size_t scratch_elements =
      detail::larger(detail::larger(stage::forward_scratch, stage::backward_scratch), parameters::scratch);

  static constexpr std::size_t token_count =
      R::plan::micro_batches * local_size(mesh, R::tokens::value, R::token_layout);

  /// `in_flight` micro-batches have a slot; `output_gradients` of them have their output's cotangent at once.
  static constexpr memory_table table(std::size_t in_flight, std::size_t output_gradients) {
    using types = typename R::elements;
    constexpr std::size_t slots = R::plan::optimizer_type::slots + (types::has_master ? 1 : 0);
    return {{parameters::elements * sizeof(element), gathered_parameters<R, Kind>::elements * sizeof(element),
             parameters::window_elements * sizeof(element) +
                 (parameters::gradient_elements + parameters::reduced_elements) * sizeof(typename types::gradient),
             parameters::state_elements * slots * sizeof(typename types::master),
             gradient_buckets<R, Kind>::elements * sizeof(typename types::travelling),
             in_flight * slot_elements * sizeof(element),
             (output_gradients * output_gradient_elements + scratch_elements) * sizeof(element),
             2 * token_count * sizeof(std::int32_t)}};
  }
};

/// The schedule of a resolved plan.
template <class R>
using schedule_of =
    schedules::schedule_table<typename R::plan::schedule, stage_partition<R>::stages, R::plan::micro_batches>;

/// How many micro-batches' output gradients a stage holds at once: 1, or `peak_in_flight` where the schedule receives
/// some ahead of the backward that reads them.
template <class R>
constexpr std::size_t output_gradients_of(std::size_t stage) {
  std::size_t waiting = 0, most = 1;
  for (schedules::action const& a : schedule_of<R>::actions(stage)) {
    if (a.kind == schedules::action_kind::receive_gradient && ++waiting > most) most = waiting;
    if (a.kind == schedules::action_kind::backward && waiting > 0) --waiting;
  }
  return most == 1 ? 1 : schedule_of<R>::peak_in_flight(stage);
}

namespace detail {
/// Calls `f` with the stage's kind as a constant.
template <class R, class F>
constexpr auto with_stage_kind(std::size_t stage, F f) {
  using partition = stage_partition<R>;
  if constexpr (partition::stages == 1) {
    return f(std::integral_constant<stage_kind, stage_kind::whole>{});
  } else {
    if (stage == 0) return f(std::integral_constant<stage_kind, stage_kind::first>{});
    if constexpr (partition::stages > 2)
      if (stage + 1 < partition::stages) return f(std::integral_constant<stage_kind, stage_kind::middle>{});
    return f(std::integral_constant<stage_kind, stage_kind::last>{});
  }
}
}  // namespace detail

/// Memory of every rank of one pipeline stage.
template <class R>
constexpr memory_table memory_of_stage(std::size_t stage) {
  return detail::with_stage_kind<R>(stage, [&](auto kind) {
    return stage_memory<R, decltype(kind)::value>::table(schedule_of<R>::peak_in_flight(stage),
                                                         output_gradients_of<R>(stage));
  });
}

}  // namespace heddle
