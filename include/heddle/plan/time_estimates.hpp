// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle {

// How long training takes, from operations, bytes and speeds. FLOPs are those of plan/flops.hpp or flop_formulas.hpp,
// bytes a ledger's. Nothing here is measured.

inline constexpr double seconds_per_day = 86400;

/// Devices that compute together: how many, and what each does, at its peak or as it was seen.
struct compute_devices {
  double count = 1;
  double flops_per_second = 0;  ///< of one
};

/// Seconds for `flops` operations in all, shared evenly.
[[nodiscard]] constexpr double compute_seconds(double flops, compute_devices const& on) {
  return flops / (on.count * on.flops_per_second);
}

/// The share of the devices' peak that `flops` operations in `seconds` came to. Of model FLOPs this is the model FLOPs
/// utilisation, MFU; of hardware FLOPs, which count recomputation, HFU (Chowdhery et al., arXiv 2204.02311 appendix B;
/// Korthikanti et al., arXiv 2205.05198 §6.3).
[[nodiscard]] constexpr double utilisation(double flops, double seconds, compute_devices const& peak) {
  return compute_seconds(flops, peak) / seconds;
}

/// A step's seconds on one rank that computes `flops` and sends `bytes`: between these two, as much as the transfers
/// hide behind the computation.
struct step_seconds {
  double overlapped = 0;  ///< everything hidden: the larger of the two
  double in_turn = 0;     ///< nothing hidden: their sum
};
[[nodiscard]] constexpr step_seconds estimate_step(double flops, double flops_per_second, double bytes,
                                                   double bytes_per_second) {
  double const computing = compute_seconds(flops, {.count = 1, .flops_per_second = flops_per_second});
  double const sending = bytes / bytes_per_second;
  return {computing > sending ? computing : sending, computing + sending};
}

/// Seconds of a step of a pipeline that fills and drains once, from those of one stage's forward and backward of one
/// micro-batch: (m + p − 1)(t_f + t_b) (arXiv 2104.04473 §3.3.1, eq. 1, where m = b'/b). What the simulation of GPipe
/// and 1F1B gives (pipeline/analysis.hpp, `makespan`), for sizes too many to simulate.
[[nodiscard]] constexpr double pipeline_seconds(std::size_t micro_batches, std::size_t stages, double forward_seconds,
                                                double backward_seconds) {
  return static_cast<double>(micro_batches + stages - 1) * (forward_seconds + backward_seconds);
}

/// Seconds to train a model of P parameters on T tokens with full recomputation: 8TP/nX (arXiv 2104.04473 §5.1, eq. 4).
/// It leaves out attention and the logits, a few per cent; `compute_seconds` of `training_flops` has them.
[[nodiscard]] constexpr double training_seconds(double parameters, double tokens, compute_devices const& on) {
  return compute_seconds(8 * tokens * parameters, on);
}

/// Seconds to train on `tokens` tokens in steps of `tokens_per_step`.
[[nodiscard]] constexpr double training_seconds_of_steps(double tokens, double tokens_per_step,
                                                         double steps_per_second) {
  return tokens / tokens_per_step / steps_per_second;
}

/// Days of 1e15 operations a second (Brown et al., arXiv 2005.14165 appendix D).
[[nodiscard]] constexpr double petaflops_days(double flops) { return flops / (1e15 * seconds_per_day); }

}  // namespace heddle
