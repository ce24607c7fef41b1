// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <attention/layout.cuh>
#include <cmath>
#include <cstddef>
#include <limits>
#include <support/mma.cuh>
#include <vector>

#include "values.hpp"

namespace heddle::emulation {

/// What is attended to what, and in which arrays: either the fused one of `host::attention`, or one that has first the
/// queries [batch, queries, kv_heads, group, head_dim], then keys and values [batch, keys, kv_heads, head_dim].
struct attention_case {
  int batch, queries, keys, kv_heads, group, shift;
  bool fused;

  static attention_case fused_of(int batch, int sequence, int kv_heads, int group) {
    return {batch, sequence, sequence, kv_heads, group, 0, true};
  }
  [[nodiscard]] kernels::attention_shape shape() const { return {queries, keys, kv_heads, group, shift}; }
  [[nodiscard]] std::size_t statistics() const {
    return static_cast<std::size_t>(batch) * static_cast<std::size_t>(kv_heads * group * queries);
  }
  [[nodiscard]] std::size_t input(int head_dim) const {
    return static_cast<std::size_t>(batch * kv_heads) * static_cast<std::size_t>(queries * group + 2 * keys) *
           static_cast<std::size_t>(head_dim);
  }
  [[nodiscard]] std::size_t output(int head_dim) const { return statistics() * static_cast<std::size_t>(head_dim); }

  template <int HeadDim, class T>
  [[nodiscard]] kernels::fused_attention_rows<T> inputs(T* x) const {
    if (fused) return kernels::fused_rows<HeadDim>(x, queries, kv_heads, group);
    kernels::attention_rows<T> const q = kernels::output_rows<HeadDim>(x, queries, kv_heads, group);
    kernels::attention_rows<T> k = kernels::output_rows<HeadDim>(x + output(HeadDim), keys, kv_heads, 1), v = k;
    k.of_group = v.of_group = 0;
    v.data += static_cast<std::ptrdiff_t>(batch) * k.of_batch;
    return {q, k, v};
  }
  template <int HeadDim, class T>
  [[nodiscard]] kernels::attention_rows<T> outputs(T* y) const {
    return kernels::output_rows<HeadDim>(y, queries, kv_heads, group);
  }
};

/// Numbers, and how far a kernel's may be from them.
struct bounded {
  std::vector<double> value, bound;
  explicit bounded(std::size_t n = 0) : value(n), bound(n) {}
};

/// Attention by its definition, in double, with bounds on what a kernel adds that computes in A and keeps T (unit
/// roundoff u, which of A is the same where T is A). f is the unit roundoff of A, or twice that where tensor cores may
/// compute: they are free to cut sums off. Of the forward pass, with n = HeadDim and s = q·k/√HeadDim:
///   a score has the error f·(n + 8)·a, a = Σ|q||k|/√HeadDim: n products and sums, and its scaling;
///   so a probability has the relative error r = expm1(2·(f·(n + 8)·(max a) + 8f)) + f·(keys + 16): its exponent, a
///   difference of two scores, the exponential, and the sum that it is divided by, of as many;
///   y has the error (r + u + f·(keys + 16))·Σ p|v| + u·|y|: what probabilities have, their rounding to T (unit u) and
///   the sum; and log_sum_exp has r + 4f·(max a + |log_sum_exp|).
/// Of the backward pass, given y and log_sum_exp: a probability exp(s - log_sum_exp) has
///   e = expm1(f·(n + 8)·a + 4f·(|s| + |log_sum_exp|) + the error of log_sum_exp) + 8f, relatively;
///   ds = p·(dp - inner) has p·(e·|dp - inner| + f·(n + 16)·Σ|dy|(|v| + |y|)) + (u + 4f)·|ds|;
///   and dq, dk and dv have the sums of that, or of p·(e + u), times what they are multiplied by, f·(terms + 16) of the
///   sum of magnitudes, and their rounding to T.
/// What lies below T's least number is lost: `least` for each product of a sum. Terms of second order are in a factor.
template <class T, int HeadDim>
struct attention_reference {
  static constexpr double f = rounding<kernels::accumulator_t<T>>::epsilon / (kernels::has_mma<T> ? 1 : 2);
  static constexpr double u = rounding<T>::epsilon / 2, least = rounding<T>::least, more = 1 + 0x1p-4;

  attention_case what;
  bounded y, log_sum_exp, dx;

  explicit attention_reference(attention_case const& c)
      : what(c), y(c.output(HeadDim)), log_sum_exp(c.statistics()), dx(c.input(HeadDim)) {}

  struct score {
    double s, a;  ///< and Σ of magnitudes
  };
  static double const* row(kernels::attention_rows<double const> const& rows, int b, int h, int g, int t) {
    return rows.data + b * rows.of_batch + h * rows.of_head + g * rows.of_group + t * rows.of_token;
  }
  template <class Rows>
  static std::ptrdiff_t offset(Rows const& rows, int b, int h, int g, int t) {
    return b * rows.of_batch + h * rows.of_head + g * rows.of_group + t * rows.of_token;
  }
  static score product(double const* a, double const* b, double factor = 1) {
    score out{0, 0};
    for (int d = 0; d < HeadDim; ++d) {
      out.s += a[d] * b[d];
      out.a += std::fabs(a[d] * b[d]);
    }
    return {out.s * factor, out.a * factor};
  }
  [[nodiscard]] int seen(int query) const { return std::clamp(query + what.shift + 1, 0, what.keys); }
  static double scale() { return 1 / std::sqrt(static_cast<double>(HeadDim)); }

  template <class Body>
  void for_each_query(Body const& body) const {
    for (int b = 0; b < what.batch; ++b)
      for (int h = 0; h < what.kv_heads; ++h)
        for (int g = 0; g < what.group; ++g)
          for (int i = 0; i < what.queries; ++i)
            body(b, h, g, i, static_cast<std::size_t>(((b * what.kv_heads + h) * what.group + g) * what.queries + i));
  }

  void forward(std::vector<double> const& x) {
    auto const in = what.template inputs<HeadDim>(x.data());
    auto const out = what.template outputs<HeadDim>(y.value.data());
    for_each_query([&](int b, int h, int g, int i, std::size_t row_index) {
      int const n = seen(i);
      std::vector<score> s(static_cast<std::size_t>(n));
      double highest = -std::numeric_limits<double>::infinity(), most = 0, sum = 0;
      for (int j = 0; j < n; ++j) {
        score const one = product(row(in.queries, b, h, g, i), row(in.keys, b, h, 0, j), scale());
        s[static_cast<std::size_t>(j)] = one;
        highest = std::fmax(highest, one.s);
        most = std::fmax(most, one.a);
      }
      for (score const& one : s) sum += std::exp(one.s - highest);
      double const total = highest + std::log(sum), terms = f * (n + 16);
      double const r = std::expm1(2 * (f * (HeadDim + 8) * most + 8 * f)) + terms;
      log_sum_exp.value[row_index] = n == 0 ? -std::numeric_limits<double>::infinity() : total;
      log_sum_exp.bound[row_index] = n == 0 ? 0 : more * (r + 4 * f * (most + std::fabs(total)));
      std::ptrdiff_t const at = offset(out, b, h, g, i);
      for (int d = 0; d < HeadDim; ++d) {
        double value = 0, magnitude = 0, all = 0;
        for (int j = 0; j < n; ++j) {
          double const p = std::exp(s[static_cast<std::size_t>(j)].s - total);
          double const v = row(in.values, b, h, 0, j)[d];
          value += p * v;
          magnitude += p * std::fabs(v);
          all += std::fabs(v);
        }
        y.value[static_cast<std::size_t>(at + d)] = value;
        y.bound[static_cast<std::size_t>(at + d)] =
            n == 0 ? 0 : more * ((r + u + terms) * magnitude + u * std::fabs(value) + least * (1 + all));
      }
    });
  }

  /// Of the y that the kernel is given; its own log_sum_exp is within the bound of this one.
  void backward(std::vector<double> const& x, std::vector<double> const& y_given, std::vector<double> const& dy) {
    auto const in = what.template inputs<HeadDim>(x.data());
    auto const out = what.template inputs<HeadDim>(dx.value.data());
    auto const y_rows = what.template outputs<HeadDim>(y_given.data()),
               dy_rows = what.template outputs<HeadDim>(dy.data());
    std::vector<double> magnitude(dx.value.size()), error(dx.value.size()), lost(dx.value.size());
    for_each_query([&](int b, int h, int g, int i, std::size_t row_index) {
      double const* const q = row(in.queries, b, h, g, i);
      double const* const change = row(dy_rows, b, h, g, i);
      score const inner = product(row(y_rows, b, h, g, i), change);
      double const total = log_sum_exp.value[row_index];
      for (int j = 0; j < seen(i); ++j) {
        double const *const k = row(in.keys, b, h, 0, j), *const v = row(in.values, b, h, 0, j);
        score const s = product(q, k, scale()), dp = product(change, v);
        double const p = std::exp(s.s - total), ds = p * (dp.s - inner.s);
        double const e = std::expm1(f * (HeadDim + 8) * s.a + 4 * f * (std::fabs(s.s) + std::fabs(total)) +
                                    log_sum_exp.bound[row_index]) +
                         8 * f;
        double const ds_error =
            p * (e * std::fabs(dp.s - inner.s) + f * (HeadDim + 16) * (dp.a + inner.a)) + (u + 4 * f) * std::fabs(ds);
        auto const add = [&](std::ptrdiff_t to, double weight, double weight_error, double const* by, double factor) {
          for (int d = 0; d < HeadDim; ++d) {
            auto const at = static_cast<std::size_t>(to + d);
            dx.value[at] += weight * by[d] * factor;
            magnitude[at] += std::fabs(weight * by[d]) * factor;
            error[at] += weight_error * std::fabs(by[d]) * factor;
            lost[at] += std::fabs(by[d]) * factor;
          }
        };
        add(offset(out.queries, b, h, g, i) + (out.queries.data - dx.value.data()), ds, ds_error, k, scale());
        add(offset(out.keys, b, h, 0, j) + (out.keys.data - dx.value.data()), ds, ds_error, q, scale());
        add(offset(out.values, b, h, 0, j) + (out.values.data - dx.value.data()), p, p * (e + u), change, 1);
      }
    });
    double const terms = f * (std::max(what.keys, what.queries * what.group) + 16);
    for (std::size_t i = 0; i < error.size(); ++i)
      dx.bound[i] = more * (error[i] + terms * magnitude[i] + u * std::fabs(dx.value[i]) + least * (1 + lost[i]));
  }
};

}  // namespace heddle::emulation
