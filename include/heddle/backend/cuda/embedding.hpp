// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <embedding/embedding.cuh>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/tensor/argument_checks.hpp>

namespace heddle::cuda {

/// `host::embeddings` on a device, which holds the tokens, too. The gradient is added in the order of the rows: the
/// host's bits.
struct embeddings {
  /// y[Rows,Width] from tokens[Rows]
  template <std::size_t Rows, std::size_t Vocab, std::size_t Width, class T>
  static void embedding(std::int32_t const* tokens, T const* table, std::int64_t first, T* y) {
    constexpr int threads = detail::row_threads<T>(Width);
    if constexpr (Rows * Width != 0)
      detail::run<kernels::embedding_forward<detail::plain_t<T>, threads>, threads>(
          kernels::row_grid(Rows), reads(tokens, Rows), reads(table, Vocab * Width), Vocab, Width, first,
          writes(y, Rows * Width));
  }
  /// dtable[Vocab,Width] += the rows of dy[Rows,Width] whose id it holds
  template <std::size_t Rows, std::size_t Vocab, std::size_t Width, class T, class Gradient>
  static void embedding_backward(std::int32_t const* tokens, T const* dy, std::int64_t first, Gradient* dtable) {
    constexpr int threads = detail::row_threads<T>(Width);
    if constexpr (Rows * Width * Vocab != 0)
      detail::run<kernels::embedding_backward<detail::plain_t<T>, detail::plain_t<Gradient>, threads>, threads>(
          kernels::embedding_grid<T, threads>(Rows, Width), reads(tokens, Rows), Rows, reads(dy, Rows * Width), Vocab,
          Width, first, writes(dtable, Vocab * Width));
  }
  /// `heddle::check_tokens`, of the host's tokens
  static void check_tokens(std::int32_t const* tokens, std::size_t n, std::size_t vocabulary) {
    heddle::check_tokens(tokens, n, vocabulary);
  }
};

}  // namespace heddle::cuda
