// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/eigen.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>

namespace heddle::host {

namespace detail {

/// The packing buffers of the products of one thread. It grows to the largest product seen, so that a step allocates
/// nothing once every product has run, and is freed with the thread.
class packing_workspace {
 public:
  static packing_workspace& of_this_thread() {
    static thread_local packing_workspace instance;
    return instance;
  }

  /// At least `bytes` bytes, aligned for any packet; the contents are lost when it grows.
  [[nodiscard]] std::byte* get(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      size_ = 0;
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
      size_ = bytes;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t alignment{128};
  struct free {
    void operator()(std::byte* memory) const noexcept { ::operator delete(memory, alignment); }
  };
  std::unique_ptr<std::byte, free> memory_;
  std::size_t size_ = 0;
};

/// Eigen's blocking parameters for a row-major c[m,n], with our packing buffers. Eigen computes cᵀ = op(b)ᵀ·op(a)ᵀ
/// column-major, so its rows are our columns.
template <class T>
struct product_blocking : Eigen::internal::level3_blocking<T, T> {
  product_blocking(Eigen::Index m, Eigen::Index n, Eigen::Index k) {
    this->m_mc = n;
    this->m_nc = m;
    this->m_kc = k;
    Eigen::internal::computeProductBlockingSizes<T, T, 1>(this->m_kc, this->m_mc, this->m_nc);
    std::size_t const columns = rounded(static_cast<std::size_t>(this->m_kc * this->m_mc) * sizeof(T));
    std::size_t const rows = rounded(static_cast<std::size_t>(this->m_kc * this->m_nc) * sizeof(T));
    std::byte* const memory = packing_workspace::of_this_thread().get(columns + rows);
    this->m_blockA = reinterpret_cast<T*>(memory);
    this->m_blockB = reinterpret_cast<T*>(memory + columns);
  }

 private:
  static constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 127) / 128 * 128; }
};

/// One instance per element type and layout, whatever the shapes. Eigen's products with compile-time sizes, which cost
/// a second of -O3 compile time each, were not faster from 65 columns up (AVX2, best of interleaved runs, GFLOP/s:
/// run-time sizes by Eigen | this | compile-time sizes: 768x128x128 86 | 82 | 86; 768x384x128 90 | 91 | 87; 768x128x512
/// 86 | 88 | 89; 768x65x128 85 | 79 | 85); over 50257 columns this was 1.1 to 1.4 times as fast as Eigen's own
/// blocking.
///
/// Eigen's blocked kernel is called below its expression layer: it is sequential there even if the user compiles with
/// OpenMP, takes our packing buffers, and needs no evaluators. Columns are cut into panels, because Eigen would pack
/// all of a 50257-column operand at once (38 MB at depth 192), and because a panel of c stays in cache between its
/// zeroing and its first accumulation.
template <class T, bool TransposeA, bool TransposeB>
[[gnu::noinline]] inline void product_in_panels(std::size_t m, std::size_t n, std::size_t k, T const* a, T const* b,
                                                T* c, bool accumulate) {
  using kernel =
      Eigen::internal::general_matrix_matrix_product<Eigen::Index, T, TransposeA ? Eigen::ColMajor : Eigen::RowMajor,
                                                     false, T, TransposeB ? Eigen::ColMajor : Eigen::RowMajor, false,
                                                     Eigen::RowMajor, 1>;
  constexpr std::size_t panel = 2048;
  auto const index = [](std::size_t value) { return static_cast<Eigen::Index>(value); };
  for (std::size_t begin = 0; begin < n; begin += panel) {
    std::size_t const width = n - begin < panel ? n - begin : panel;
    if (!accumulate)
      for (std::size_t row = 0; row < m; ++row) std::memset(c + row * n + begin, 0, width * sizeof(T));
    if (m == 0 || k == 0) continue;
    product_blocking<T> blocking(index(m), index(width), index(k));
    kernel::run(index(m), index(width), index(k), a, index(TransposeA ? m : k), b + (TransposeB ? begin * k : begin),
                index(TransposeB ? k : n), c + begin, 1, index(n), T(1), blocking);
  }
}

}  // namespace detail

/// Matrix products, row-major and contiguous. `TransposeA`: `a` is stored [K,M]; `TransposeB`: `b` is stored [N,K].
/// Single-threaded: a rank is a thread. The order of the sums is fixed by the shapes and the machine's caches. `c` must
/// not overlap the operands. Scratch memory is kept per thread; a second call of the same shape allocates nothing.
/// The blocking is Goto and van de Geijn's, "Anatomy of high-performance matrix multiplication" (2008), from Eigen.
struct products {
  /// c[M,N] = op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product(T const* a, T const* b, T* c) {
    detail::product_in_panels<T, TransposeA, TransposeB>(M, N, K, a, b, c, false);
  }

  /// c[M,N] += op(a)[M,K]·op(b)[K,N]
  template <std::size_t M, std::size_t N, std::size_t K, bool TransposeA, bool TransposeB, class T>
  static void product_accumulate(T const* a, T const* b, T* c) {
    detail::product_in_panels<T, TransposeA, TransposeB>(M, N, K, a, b, c, true);
  }
};

}  // namespace heddle::host
