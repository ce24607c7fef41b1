// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/plan/gpt_sizes.hpp>
#include <string>

namespace heddle {

// The estimates of Rajbhandari et al., ZeRO (arXiv 1910.02054), for models, precisions and numbers of ranks that nobody
// has compiled. For a model and a plan `ledger` has the bytes themselves, with activations, buckets and slots.

/// Bytes of training state for each parameter. The default is mixed-precision Adam (§3.1): parameters and gradients of
/// 16 bits; K = 12 for a 32-bit copy of the parameter, momentum and variance; together 16.
struct state_bytes {
  double parameter = 2;
  double gradient = 2;
  double optimizer = 12;
  [[nodiscard]] constexpr double total() const { return parameter + gradient + optimizer; }
};
inline constexpr state_bytes mixed_precision_adam{};

/// Training state for each parameter when everything has one element type.
template <class Element, class OptimizerType>
inline constexpr state_bytes state_bytes_in{sizeof(Element), sizeof(Element), sizeof(Element) * OptimizerType::slots};

namespace detail {
constexpr void check_stage(std::size_t stage, char const* who) {
  if (stage > 3) throw error(joined_text({who, ": 'stage' is ", stage, "; it must be 0, 1, 2 or 3"}));
}
}  // namespace detail

/// Bytes of training state on one of n data ranks, for each parameter, at a stage of ZeRO (§5, figure 1):
///   0: 4 + K,   1: 4 + K/n,   2: 2 + (2 + K)/n,   3: (4 + K)/n      with the default `state`.
[[nodiscard]] constexpr double zero_bytes_per_parameter(std::size_t stage, double data_ranks,
                                                        state_bytes const& state = mixed_precision_adam) {
  detail::check_stage(stage, "zero_bytes_per_parameter");
  double const split =
      (stage >= 1 ? state.optimizer : 0) + (stage >= 2 ? state.gradient : 0) + (stage >= 3 ? state.parameter : 0);
  return state.total() - split + split / data_ranks;
}

/// Bytes of training state on one rank, for a model of that many parameters.
[[nodiscard]] constexpr double zero_bytes(std::size_t stage, double parameters, double data_ranks,
                                          state_bytes const& state = mixed_precision_adam) {
  return parameters * zero_bytes_per_parameter(stage, data_ranks, state);
}

/// The most parameters whose training state fits (table 2), where a model is split over `model_ranks` and each part
/// over the data ranks. Activations and buffers, which measured sizes allow for, are not in it.
[[nodiscard]] constexpr double zero_largest_model(std::size_t stage, double bytes_of_rank, double data_ranks,
                                                  double model_ranks = 1,
                                                  state_bytes const& state = mixed_precision_adam) {
  return model_ranks * bytes_of_rank / zero_bytes_per_parameter(stage, data_ranks, state);
}

/// Elements that a rank sends in a step for Ψ parameters over n data ranks (§7): 2Ψ(n−1)/n for stages 0 to 2, a
/// reduce-scatter of gradients and an all-gather; 3Ψ(n−1)/n for stage 3, which gathers parameters before forward and
/// before backward. The ledger's traffic is that to the byte where sizes divide (tests/static/paper_zero.cpp).
[[nodiscard]] constexpr double zero_elements_sent(std::size_t stage, double parameters, double data_ranks) {
  detail::check_stage(stage, "zero_elements_sent");
  return (stage == 3 ? 3 : 2) * parameters * (data_ranks - 1) / data_ranks;
}

/// Bytes of the activations kept when only each layer's input is: batch·s·h·l elements (§3.2).
[[nodiscard]] constexpr double checkpointed_bytes(gpt_sizes const& g, double batch, double bytes_per_element = 2) {
  return batch * static_cast<double>(g.sequence * g.width * g.layers) * bytes_per_element;
}

}  // namespace heddle
