// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace heddle {

/// The pointwise non-linearities. `gelu_tanh` is GPT-2's approximation, `gelu_erf` the exact form (Hendrycks and
/// Gimpel, arXiv 1606.08415 §2); `silu` is x·sigmoid(x), the gate of SwiGLU (Shazeer, arXiv 2002.05202).
enum class activation_kind { gelu_tanh, gelu_erf, silu, relu };

}  // namespace heddle
