// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/plan/legality.hpp>
#include <heddle/plan/plan_error.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <type_traits>
#include <utility>

namespace heddle {

namespace detail {
// A constant expression for each stage, since compilers bound the work of each.
template <class R, std::size_t Stage>
inline constexpr std::size_t bytes_of_stage = memory_of_stage<R>(Stage).total();
}  // namespace detail

/// The pipeline stage whose ranks need most memory.
template <class R>
inline constexpr std::size_t fullest_stage = []<std::size_t... Stage>(std::index_sequence<Stage...>) {
  std::size_t const bytes[] = {detail::bytes_of_stage<R, Stage>...};
  std::size_t most = 0;
  for (std::size_t s = 1; s < sizeof...(Stage); ++s)
    if (bytes[s] > bytes[most]) most = s;
  return most;
}
(std::make_index_sequence<stage_partition<R>::stages>{});

namespace detail {

/// What is wrong with a plan's bound on memory, or void.
template <class R, std::size_t Limit>
struct memory_fault {
  static constexpr memory_table needed = memory_of_stage<R>(fullest_stage<R>);
  using category = memory_category;
  using type = std::conditional_t<
      needed.total() <= Limit, void,
      plan_error<fits<Limit>, must_not_be_less_than_the_bytes_of_a_rank<needed.total()>,
                 on_pipeline_stage<fullest_stage<R>>, for_parameters<needed.of(category::parameters)>,
                 for_gathered_parameters<needed.of(category::gathered_parameters)>,
                 for_gradients<needed.of(category::gradients)>,
                 for_optimizer_state<needed.of(category::optimizer_state)>, for_buckets<needed.of(category::buckets)>,
                 for_activations<needed.of(category::activations)>, for_scratch<needed.of(category::scratch)>,
                 for_tokens<needed.of(category::tokens)>, split_more_or_accumulate_smaller_micro_batches>>;
};
template <class R>
struct memory_fault<R, 0> {
  using type = void;
};

}  // namespace detail

/// Can be instantiated only if the plan stays within the memory that it says it fits into.
template <class R>
struct within_memory : detail::without_fault<typename detail::memory_fault<R, R::plan::memory_limit>::type> {};

}  // namespace heddle
