// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/plan/stage_memory.hpp>
#include <string_view>
#include <type_traits>

namespace heddle {

/// One line of a rank's ledger: what lies in an arena, of which element type, and how long it lives. The bytes of all
/// lines of a category are those of its arena.
struct memory_row {
  memory_category category{};
  std::string_view what;     ///< and until when, where it does not live as long as the trainer
  std::string_view element;  ///< "fp32"
  std::size_t bytes = 0;     ///< of one
  std::size_t times = 1;     ///< as many stand at once
  [[nodiscard]] constexpr std::size_t total() const { return bytes * times; }
  friend constexpr bool operator==(memory_row const&, memory_row const&) = default;
};

/// The lines of a rank's ledger.
template <class R>
using memory_row_list = std::array<memory_row, 13 + R::plan::optimizer_type::slots + (R::elements::has_master ? 1 : 0) +
                                                   (R::elements::widens_gradients ? 1 : 0)>;

namespace detail {

template <class Optimizer>
constexpr std::string_view slot_name(std::size_t k) {
  if constexpr (requires { Optimizer::slot_names[0]; })
    return Optimizer::slot_names[k];
  else
    return k == 0 ? "first state" : k == 1 ? "second state" : "further state";
}

template <class R, stage_kind Kind>
constexpr memory_row_list<R> memory_rows_of_kind(std::size_t in_flight, std::size_t output_gradients) {
  using memory = stage_memory<R, Kind>;
  using parameters = stage_parameters<R, Kind>;
  using optimizer = typename R::plan::optimizer_type;
  using types = typename R::elements;
  using category = memory_category;
  memory_row_list<R> rows{};
  std::size_t n = 0;
  auto const put = [&]<class Element>(std::type_identity<Element>, memory_category c, std::string_view what,
                                      std::size_t elements, std::size_t times = 1) {
    rows[n++] = {c, what, element_name<Element>, elements * sizeof(Element), times};
  };
  constexpr std::type_identity<typename R::element> value{};
  constexpr std::type_identity<typename types::gradient> gradient{};
  constexpr std::type_identity<typename types::master> master{};
  // Of one micro-batch; slots lie one behind the other, rounded up to cache lines.
  constexpr std::size_t boundary_in = slot<typename R::element>(memory::input_size);
  constexpr std::size_t boundary_out = slot<typename R::element>(memory::output_size);
  put(value, category::parameters, "at rest", parameters::elements);
  put(value, category::gathered_parameters, "of the unit that computes and the next",
      gathered_parameters<R, Kind>::elements);
  if constexpr (parameters::windows)
    put(value, category::gradients, "unreduced, of the unit that computes", parameters::window_elements);
  if constexpr (!parameters::windows || types::widens_gradients)
    put(gradient, category::gradients, "accumulated", parameters::gradient_elements);
  put(gradient, category::gradients, "reduced", parameters::reduced_elements);
  if constexpr (types::has_master) put(master, category::optimizer_state, "master weights", parameters::state_elements);
  for (std::size_t k = 0; k < optimizer::slots; ++k)
    put(master, category::optimizer_state, slot_name<optimizer>(k), parameters::state_elements);
  put(std::type_identity<typename types::travelling>{}, category::buckets, "gradients on their way",
      gradient_buckets<R, Kind>::elements);
  put(value, category::activations, "saved by modules until their backward", memory::stage::saved, in_flight);
  put(value, category::activations, "stage's input until its backward", boundary_in, in_flight);
  put(value, category::activations, "stage's output until its backward", boundary_out, in_flight);
  put(value, category::activations, "input's gradient until it is sent", boundary_in, in_flight);
  put(value, category::scratch, "output's gradient during backward", boundary_out, output_gradients);
  put(value, category::scratch, "during a module's forward or backward, or an update", memory::scratch_elements);
  rows[n++] = {category::tokens, "ids of a step", "int32", memory::token_count * sizeof(std::int32_t), 1};
  rows[n++] = {category::tokens, "targets of a step", "int32", memory::token_count * sizeof(std::int32_t), 1};
  return rows;
}

}  // namespace detail

/// The ledger of every rank of a pipeline stage, line by line.
template <class R>
constexpr memory_row_list<R> memory_rows_of_stage(std::size_t stage) {
  return detail::with_stage_kind<R>(stage, [&](auto kind) {
    return detail::memory_rows_of_kind<R, decltype(kind)::value>(schedule_of<R>::peak_in_flight(stage),
                                                                 output_gradients_of<R>(stage));
  });
}

}  // namespace heddle
