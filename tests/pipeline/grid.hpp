// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <utility>

#include <heddle/pipeline/gpipe.hpp>
#include <heddle/pipeline/one_f_one_b.hpp>

/// Every size at which the pipeline tests look: fewer, as many and more micro-batches than stages (known-faults PS-1).
namespace grid {

inline constexpr std::size_t most_stages = 8;
inline constexpr std::size_t most_micro_batches = 9;

namespace detail {

template <template <class, std::size_t, std::size_t> class Visit, class S, std::size_t Stages, std::size_t... M>
constexpr bool row(std::index_sequence<M...>) {
  return (Visit<S, Stages, M + 1>::holds() && ...);
}
template <template <class, std::size_t, std::size_t> class Visit, class S, std::size_t... P>
constexpr bool rows(std::index_sequence<P...>) {
  return (row<Visit, S, P + 1>(std::make_index_sequence<most_micro_batches>{}) && ...);
}

}  // namespace detail

/// True when `Visit<S, stages, micro_batches>::holds()` for stages 1..8 and micro-batches 1..9.
template <template <class, std::size_t, std::size_t> class Visit, class S>
constexpr bool for_all() {
  return detail::rows<Visit, S>(std::make_index_sequence<most_stages>{});
}

}  // namespace grid
