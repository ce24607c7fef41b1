// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle {

/// Where one call of a placed module finds its memory. All pointers lead into the rank's arenas; the offsets between a
/// frame and its children's frames are compile-time constants.
template <class T>
struct frame {
  T const* const* parameter = nullptr;  ///< one pointer per parameter use, in declaration order
  T* const* gradient = nullptr;  ///< likewise; gradients accumulate, but see `fresh`. Null for what is not trained
  T* saved = nullptr;            ///< what forward leaves for backward
  T* scratch = nullptr;          ///< free for the duration of the call
  std::size_t site = 0;          ///< number of the first random site in this module, in declaration order
  std::size_t layer = 0;         ///< global index of the enclosing repeated block
  std::size_t use = 0;           ///< number of the first parameter use of this module in its stage
  bool asked = false;            ///< the parameters were asked for by the unit around this module
  bool const* fresh = nullptr;   ///< by number of use: what stands in its gradient counts for nothing; or null

  /// Whether backward's gradient of this module's use k replaces what stands there, instead of being added to it.
  [[nodiscard]] bool is_fresh(std::size_t k) const { return fresh != nullptr && fresh[use + k]; }
};

namespace detail {
constexpr std::size_t larger(std::size_t a, std::size_t b) { return a > b ? a : b; }
}  // namespace detail

/// Arena slots begin at cache lines.
inline constexpr std::size_t slot_bytes = 64;

/// `elements` rounded up so that the next slot begins at a cache line.
template <class T>
constexpr std::size_t slot(std::size_t elements) {
  constexpr std::size_t unit = slot_bytes / sizeof(T);
  return (elements + unit - 1) / unit * unit;
}

}  // namespace heddle
