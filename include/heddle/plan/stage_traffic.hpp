// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/plan/shared_parameters.hpp>
#include <heddle/plan/stage_memory.hpp>

namespace heddle {

/// Scalars that a step reduces over all ranks at its end: the squared gradient norm, the loss, and whether ranks were
/// given alike what must be alike.
inline constexpr std::size_t step_scalars = 3;

namespace detail {
/// What `times` executions of a path move.
template <class T>
constexpr void add_copies(traffic_table& t, coordinates const& at, mesh_value const& mesh, redistribution const& path,
                          std::size_t times) {
  if (path.empty()) return;
  traffic_table one{};
  count_redistribution<T>(one, mesh, at, path);
  t.add(one, times);
}
}  // namespace detail

/// What the rank at `at` sends in one training step: modules, pipeline transfers, gradient reductions and the step's
/// few scalars, by axis and operation. The two-rank group of shared parameters counts on the pipeline axis.
template <class R>
constexpr traffic_table traffic_of_step(coordinates const& at) {
  using T = typename R::element;
  using gradient = typename R::elements::gradient;
  using partition = stage_partition<R>;
  constexpr mesh_value mesh = R::mesh::value;
  constexpr std::size_t micro_batches = R::plan::micro_batches;
  traffic_table t{};
  detail::with_stage_kind<R>(partition::stage_of(at), [&](auto kind_constant) {
    constexpr stage_kind kind = decltype(kind_constant)::value;
    using memory = stage_memory<R, kind>;
    using parameters = stage_parameters<R, kind>;
    traffic_table of_modules{};
    memory::stage::count_forward(of_modules, at);
    memory::stage::count_backward(of_modules, at);
    t.add(of_modules, micro_batches);
    if constexpr (!memory::is_last) {
      t.add(partition::axis, comm::operation::send, micro_batches,
            micro_batches * comm::send_sent(memory::output_size) * sizeof(T));
      t.add(partition::axis, comm::operation::receive, micro_batches, 0);
    }
    if constexpr (!memory::is_first) {
      t.add(partition::axis, comm::operation::send, micro_batches,
            micro_batches * comm::send_sent(memory::input_size) * sizeof(T));
      t.add(partition::axis, comm::operation::receive, micro_batches, 0);
    }
    // Parameters are brought before forward and before backward of every micro-batch, to each of their uses.
    for (parameter_unit const& u : parameters::units)
      for (std::size_t k = u.first_use; k < u.first_use + u.uses; ++k) {
        auto const& e = parameters::entry[parameters::of_use[k]];
        detail::add_copies<T>(t, at, mesh, e.gather, (u.backward ? 2 : 1) * micro_batches * e.copies);
      }
    gradient_buckets<R, kind>::count_step(t, at);
    for (std::size_t n = 0; n < parameters::count; ++n) {
      auto const& e = parameters::entry[n];
      // Master weights are in the layout of the state already.
      if (!R::elements::has_master) detail::add_copies<T>(t, at, mesh, e.to_state, e.copies);
      detail::add_copies<gradient>(t, at, mesh, e.gradient_to_state, e.copies);
      detail::add_copies<T>(t, at, mesh, e.from_state, e.copies);
      if (e.trainable && shared_parameters<R>::template is_shared<kind>(n))
        t.add(partition::axis, comm::operation::all_reduce, 1,
              comm::all_reduce_sent(e.reduced_size, 2, memory::is_first ? 0 : 1) * sizeof(gradient));
    }
    return 0;
  });
  unsigned token_axes = 0;
  for (std::size_t a = 0; a != mesh.axes; ++a) token_axes |= R::token_layout.is_split(a) ? 1U << a : 0U;
  count_reduction<double>(t, mesh, at, token_axes, 1);
  count_reduction<double>(t, mesh, at, (1U << mesh.axes) - 1U, step_scalars);
  return t;
}

}  // namespace heddle
