// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/precision/loss_scale.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <heddle/tensor/traffic.hpp>
#include <span>

namespace heddle {

/// What a step needs besides its tokens.
template <class OptimizerOptions>
struct step_facts {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  ///< counts from 0
  double learning_rate = 0;
  double clip = 0;  ///< bound of the global gradient norm; 0 means none
  OptimizerOptions optimizer{};
};

/// A sum over counted tokens with its count, as every rank knows them after a step or an evaluation.
struct loss_sum {
  double sum = 0;
  double count = 0;
  /// The mean; 0 where nothing was counted.
  [[nodiscard]] double mean() const { return count > 0 ? sum / count : 0; }
};

/// What every rank knows after a step.
struct step_result {
  loss_sum loss;
  double gradient_norm = 0;  ///< before clipping, without the loss scale
  double loss_scale = 1;     ///< of this step
  bool skipped = false;      ///< gradients overflowed: nothing was updated, and the next step may have a smaller scale
};

/// This rank's part of a parameter, for inspection.
template <class Elements>
struct parameter_view {
  parameter_entry const* entry = nullptr;
  typename Elements::value* value = nullptr;
  /// The last step's, times its `step_result::loss_scale`; null where the parameter is frozen.
  typename Elements::gradient* gradient = nullptr;
  /// Where `Elements::has_master` and the parameter is trained: what `value` is a copy of, in the layout of the
  /// optimizer's state.
  typename Elements::master* master = nullptr;
  bool owned = true;  ///< false for the second copy of a parameter shared by two stages
};

/// A rank's part of a training run, whatever the kind of its communicator.
template <class Elements, class Optimizer>
class stage_interface {
 public:
  using master = typename Elements::master;
  using logit = accumulation_t<typename Elements::value>;
  using options = typename Optimizer::options;
  virtual ~stage_interface() = default;
  virtual step_result step(std::int32_t const* tokens, std::int32_t const* targets,
                           step_facts<options> const& facts) = 0;
  virtual loss_sum evaluate(std::int32_t const* tokens, std::int32_t const* targets) = 0;
  virtual void logits(std::int32_t const* tokens, std::span<logit> out) = 0;
  /// After values were written through `parameter`: master weights become what was written.
  virtual void take_values() = 0;
  [[nodiscard]] virtual loss_scale_state loss_scale() const = 0;
  virtual void set_loss_scale(loss_scale_state const& state) = 0;
  [[nodiscard]] virtual std::size_t parameter_count() const = 0;
  [[nodiscard]] virtual parameter_view<Elements> parameter(std::size_t n) = 0;
  [[nodiscard]] virtual std::array<master*, Optimizer::slots> optimizer_state(std::size_t n) = 0;
  [[nodiscard]] virtual memory_table allocated() const = 0;
  [[nodiscard]] virtual std::size_t steering_bytes() const = 0;
  [[nodiscard]] virtual traffic_table sent() const = 0;
};

}  // namespace heddle
