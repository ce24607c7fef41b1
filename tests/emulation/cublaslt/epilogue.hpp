// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cublasLt.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../cudart/machine.hpp"
#include "handles.hpp"

namespace heddle::emulation {

/// What a product of cuBLASLt does before it rounds its result d[m, n], whose columns stand one after the other, and
/// what else it leaves: of those epilogues that the backend uses. The vector is one of d's elements: [m] is added to
/// each column, or [n] takes the sums of the second operand over k. The matrix has the shape of d.
struct epilogue {
  std::uint32_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  void* vector = nullptr;
  void* matrix = nullptr;
  std::int64_t leading = 0;  ///< of the matrix

  void set_kind(std::uint32_t next) {
    kind = next;
    if (next != CUBLASLT_EPILOGUE_DEFAULT && !adds() && !activates() && next != CUBLASLT_EPILOGUE_BGRADB)
      throw blas_refusal{CUBLAS_STATUS_INVALID_VALUE,
                         "epilogue " + std::to_string(next) + ", which the emulation lacks"};
  }
  [[nodiscard]] bool adds() const { return kind == CUBLASLT_EPILOGUE_BIAS || activates(); }
  [[nodiscard]] bool activates() const { return kind == CUBLASLT_EPILOGUE_GELU_AUX_BIAS; }
  /// At most 16; 0 of none.
  [[nodiscard]] std::uint32_t vector_alignment() const {
    if (kind == CUBLASLT_EPILOGUE_DEFAULT) return 0;
    std::uintptr_t const low = reinterpret_cast<std::uintptr_t>(vector) % 16;
    return static_cast<std::uint32_t>(low == 0 ? 16 : low & (0 - low));
  }

  /// What cuBLASLt's header and tables of types ask for.
  void require(cudaDataType_t element, std::uint64_t rows) const {
    if (kind == CUBLASLT_EPILOGUE_DEFAULT) return;
    if (element == CUDA_R_64F) throw blas_refusal{CUBLAS_STATUS_NOT_SUPPORTED, "an epilogue of a product of doubles"};
    auto const refuse = [](char const* text) { throw blas_refusal{CUBLAS_STATUS_INVALID_VALUE, text}; };
    if (vector == nullptr) refuse("an epilogue without its vector");
    if (reinterpret_cast<std::uintptr_t>(vector) % (element == CUDA_R_32F ? 4 : 2) != 0)
      refuse("an epilogue's vector that begins within an element");
    if (!activates()) return;
    if (matrix == nullptr || reinterpret_cast<std::uintptr_t>(matrix) % 16 != 0)
      refuse("an epilogue's matrix that is not there, or does not begin at a multiple of 16 bytes");
    if (leading % 8 != 0 || leading < static_cast<std::int64_t>(rows))
      refuse("an epilogue's matrix whose columns do not begin every 8 elements or a multiple, or have no room");
  }

  /// d's element in row i and column j, not yet rounded, from the product's own.
  template <class T, class A>
  A of(A value, std::uint64_t i, std::uint64_t j) const {
    if (adds()) value += A(static_cast<T const*>(vector)[i]);
    if (!activates()) return value;
    static_cast<T*>(matrix)[i + j * static_cast<std::uint64_t>(leading)] = T(value);
    // As GPT-2's: ½x(1 + tanh(√(2/π)·(x + 0.044715x³))).
    A const inner = A(0.79788456080286535588) * (value + A(0.044715) * value * value * value);
    return A(0.5) * value * (A(1) + std::tanh(inner));
  }
  /// The vector's n sums over k, each rounded once, of `at(j, l)`.
  template <class T, class A, class At>
  void sum_up(std::uint64_t n, std::uint64_t k, At const& at) const {
    for (std::uint64_t j = 0; j < n; ++j) {
      A sum = 0;
      for (std::uint64_t l = 0; l < k; ++l) sum += A(at(j, l));
      static_cast<T*>(vector)[j] = T(sum);
    }
  }

  void add_uses(std::vector<range>& uses, std::size_t element, std::uint64_t m, std::uint64_t n) const {
    if (kind == CUBLASLT_EPILOGUE_DEFAULT) return;
    uses.push_back({reinterpret_cast<std::uintptr_t>(vector), (adds() ? m : n) * element, 1, 0, !adds(), side::device});
    if (activates())
      uses.push_back({reinterpret_cast<std::uintptr_t>(matrix), m * element, n,
                      static_cast<std::size_t>(leading) * element, true, side::device});
  }
};

}  // namespace heddle::emulation
