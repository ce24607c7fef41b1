// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/eigen.hpp>

#include <cstddef>

namespace heddle::host::detail {

/// Eigen's blocking parameters for a row-major c[m,n], with our packing buffers. Eigen computes cᵀ = op(b)ᵀ·op(a)ᵀ
/// column-major, so its rows are our columns.
template <class T>
struct product_blocking : Eigen::internal::level3_blocking<T, T> {
  product_blocking(Eigen::Index m, Eigen::Index n, Eigen::Index k) {
    this->m_mc = n;
    this->m_nc = m;
    this->m_kc = k;
    Eigen::internal::computeProductBlockingSizes<T, T, 1>(this->m_kc, this->m_mc, this->m_nc);
  }
  [[nodiscard]] std::size_t bytes() const { return first_bytes() + rounded(this->m_kc * this->m_nc); }
  void pack_into(std::byte* memory) {
    this->m_blockA = reinterpret_cast<T*>(memory);
    this->m_blockB = reinterpret_cast<T*>(memory + first_bytes());
  }

 private:
  [[nodiscard]] std::size_t first_bytes() const { return rounded(this->m_kc * this->m_mc); }
  static std::size_t rounded(Eigen::Index elements) {
    return (static_cast<std::size_t>(elements) * sizeof(T) + 127) / 128 * 128;
  }
};

}  // namespace heddle::host::detail
