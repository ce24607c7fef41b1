// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <vector>

/// Attention by its formula, in double, with a whole row of scores: what the tiles are compared with.
struct plain_attention {
  std::size_t queries, keys, size;  // of one head
  std::vector<double> y, log_sum_exp, dq, dk, dv;

  /// q, dy [queries, size], k, v [keys, size]; causal, aligned at the end.
  plain_attention(std::size_t n, std::size_t m, std::size_t d, std::vector<double> const& q,
                  std::vector<double> const& k, std::vector<double> const& v, std::vector<double> const& dy)
      : queries(n), keys(m), size(d), y(n * d), log_sum_exp(n), dq(n * d), dk(m * d), dv(m * d) {
    double const scale = 1 / std::sqrt(static_cast<double>(d));
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const seen = i + m + 1 > n ? i + m + 1 - n : 0;
      std::vector<double> p(seen), dp(seen);
      double largest = -std::numeric_limits<double>::infinity(), sum = 0, inner = 0;
      for (std::size_t j = 0; j < seen; ++j) {
        for (std::size_t e = 0; e < d; ++e) p[j] += q[i * d + e] * k[j * d + e] * scale;
        largest = std::fmax(largest, p[j]);
      }
      for (double& x : p) sum += x = std::exp(x - largest);
      log_sum_exp[i] = seen == 0 ? largest : largest + std::log(sum);
      for (std::size_t j = 0; j < seen; ++j) {
        p[j] /= sum;
        for (std::size_t e = 0; e < d; ++e) {
          y[i * d + e] += p[j] * v[j * d + e];
          dv[j * d + e] += p[j] * dy[i * d + e];
          dp[j] += dy[i * d + e] * v[j * d + e];
        }
        inner += p[j] * dp[j];
      }
      for (std::size_t j = 0; j < seen; ++j)
        for (std::size_t e = 0; e < d; ++e) {
          dq[i * d + e] += p[j] * (dp[j] - inner) * scale * k[j * d + e];
          dk[j * d + e] += p[j] * (dp[j] - inner) * scale * q[i * d + e];
        }
    }
  }
};

/// An array between two stretches of guard bytes, off the alignment of a vector.
template <class T>
class guarded {
 public:
  explicit guarded(std::size_t n) : n_(n), bytes_(n * sizeof(T) + 2 * guard, mark) {
    for (std::size_t i = 0; i < n; ++i) data()[i] = T(0);
  }
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data() + guard); }
  [[nodiscard]] std::size_t size() const { return n_; }
  T& operator[](std::size_t i) { return data()[i]; }
  [[nodiscard]] bool untouched() const {
    for (std::size_t i = 0; i < guard; ++i)
      if (bytes_[i] != mark || bytes_[bytes_.size() - 1 - i] != mark) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard = 256 + sizeof(T);
  static constexpr unsigned char mark = 0xA5;
  std::size_t n_;
  std::vector<unsigned char> bytes_;
};

/// Numbers without pattern in [-1, 1].
inline double scattered(std::size_t i) { return std::sin(static_cast<double>(i * i % 10007) * 1.7 + 0.3); }

/// Largest difference, relative to 1 or to the expected value where that is larger; NaN stays NaN.
template <class A>
double largest_error(A& found, std::vector<double> const& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double const error =
        std::fabs(static_cast<double>(found[i]) - expected[i]) / std::fmax(1.0, std::fabs(expected[i]));
    if (!(error <= worst)) worst = error;
  }
  return worst;
}
