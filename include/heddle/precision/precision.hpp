// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/precision/loss_scale.hpp>
#include <string_view>

namespace heddle {

/// Number formats that a precision policy can name. `tfloat32` is one to compute in: numbers at rest are of another.
enum class dtype : std::uint8_t { float64, float32, tfloat32, bfloat16, float16 };

/// As reports, file names and tools call it.
constexpr std::string_view name_of(dtype t) {
  constexpr std::string_view names[] = {"fp64", "fp32", "tf32", "bf16", "fp16"};
  return names[static_cast<std::size_t>(t)];
}
/// Bytes of a number at rest.
constexpr std::size_t bytes_of(dtype t) {
  return t == dtype::float64 ? 8 : t == dtype::float32 || t == dtype::tfloat32 ? 4 : 2;
}
/// Bits of the fraction that are stored: a number is rounded to half of 2^-bits of itself.
constexpr std::size_t fraction_bits(dtype t) {
  return t == dtype::float64 ? 52 : t == dtype::float32 ? 23 : t == dtype::bfloat16 ? 7 : 10;
}

/// Which number formats a run uses, as a structural value: a template argument, and a part of the plan's type. What is
/// left out follows from what stands before it, so `{.storage = dtype::float32}` is everything in fp32.
///
/// Mixed precision is Micikevicius et al., arXiv 1710.03740; its bytes are those of Rajbhandari et al., arXiv
/// 1910.02054 §3.1. What a plan refuses is in plan/precision_rules.hpp.
struct precision_policy {
  /// Parameters as modules read them, the values between modules, and their cotangents.
  dtype storage = dtype::float32;
  /// What the operands of matrix products are rounded to.
  dtype compute = storage;
  /// Sums inside a module, and what it keeps of them; gradients added up over micro-batches.
  dtype accumulation = storage == dtype::float64 ? dtype::float64 : dtype::float32;
  /// A gradient that is not added up over micro-batches.
  dtype gradient = storage;
  /// Gradients on their way between ranks: each collective sums in `accumulation`, and rounds once. The two parts of a
  /// parameter that the first and the last stage share are summed at the end of a step, and travel as `gradient`.
  dtype reduction = gradient;
  /// The weights that the optimizer updates, and its state. Where it is not `storage`, parameters are copies of them.
  dtype master = accumulation;
  // Modules that are excepted from `storage`.
  dtype norms = accumulation;  ///< what a norm computes and keeps of each row
  dtype logits = storage;      ///< the last product's output
  dtype loss = accumulation;   ///< the loss, its gradient, and what it keeps of each row
  /// What the loss is multiplied by before backward.
  loss_scale_policy scale = no_loss_scale;
  friend constexpr bool operator==(precision_policy const&, precision_policy const&) = default;
};

/// Everything in one format: `precision<fp32>`, the default.
inline constexpr precision_policy fp32{.storage = dtype::float32};
inline constexpr precision_policy fp64{.storage = dtype::float64};
/// fp32, but the operands of matrix products are rounded to 10 bits of fraction.
inline constexpr precision_policy tf32{.storage = dtype::float32, .compute = dtype::tfloat32};
/// Parameters, activations and gradients of 16 bits; sums, master weights and optimizer state of 32.
inline constexpr precision_policy bf16_mixed{.storage = dtype::bfloat16};
/// The same in fp16, whose smallest numbers are too large for gradients: with a dynamic loss scale.
inline constexpr precision_policy fp16_mixed{.storage = dtype::float16, .scale = dynamic_loss_scale};

}  // namespace heddle
