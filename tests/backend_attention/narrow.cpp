// SPDX-License-Identifier: Apache-2.0
// Attention on 16-bit numbers: probabilities, and what backward multiplies, are rounded where they are operands of a
// product, as on a device's tensor cores; all sums are float, and each result is rounded once.
#include <doctest/doctest.h>

#include <cmath>
#include <heddle/backend/host.hpp>
#include <heddle/tensor/random_key.hpp>
#include <vector>

namespace narrow_attention {
namespace {

namespace hd = heddle;
using B = hd::host_backend;
constexpr std::size_t batch = 2, sequence = 75, kv_heads = 2, group = 2, width = 20;  // two tiles of keys, odd widths
constexpr std::size_t heads = kv_heads * group, n = batch * sequence;

template <class T>
constexpr double unit = std::is_same_v<T, hd::host::bfloat16> ? 0x1p-8 : 0x1p-11;

template <class T>
std::vector<T> drawn(std::size_t count, std::uint64_t seed) {
  std::vector<T> x(count);
  hd::index_map map{};
  map.rank = 1;
  map.extent[0] = map.valid[0] = count;
  map.stride[0] = 1;
  B::fill_normal(x.data(), map, hd::random_key{seed, 0, 0}, 0, 1);
  return x;
}

/// |out - exact| over (one rounding of it + what roundings of operands can change).
struct worst_of {
  double worst = 0;
  void see(double out, double exact, double bound) {
    double const off = std::fabs(out - exact) / bound;
    if (!(off <= worst)) worst = off;
  }
};

}  // namespace

TEST_CASE_TEMPLATE("forward and backward differ from sums in double by roundings of operands and results", T,
                   hd::host::bfloat16, hd::host::float16) {
  constexpr std::size_t slots = group + 2, stride = kv_heads * slots * width;
  auto const qkv = drawn<T>(n * stride, 1), dy = drawn<T>(n * heads * width, 2);
  std::vector<T> y(n * heads * width), dqkv(n * stride);
  std::vector<float> lse(batch * heads * sequence);
  std::vector<float> scratch(B::attention_scratch<batch, sequence, kv_heads, group, width>());
  std::vector<float> more(B::attention_backward_scratch<batch, sequence, kv_heads, group, width>());
  B::attention<batch, sequence, kv_heads, group, width>(qkv.data(), y.data(), lse.data(), scratch.data());
  B::attention_backward<batch, sequence, kv_heads, group, width>(qkv.data(), y.data(), lse.data(), dy.data(),
                                                                 dqkv.data(), more.data());
  double const u = unit<T>, scale = 1 / std::sqrt(static_cast<double>(width)), float_error = 0x1p-18;
  worst_of of_y, of_lse, of_q, of_k, of_v;
  for (std::size_t b = 0; b < batch; ++b)
    for (std::size_t h = 0; h < kv_heads; ++h) {
      auto const in = [&](std::size_t s, std::size_t slot, std::size_t d) {
        return ((b * sequence + s) * kv_heads + h) * slots * width + slot * width + d;
      };
      auto const out = [&](std::size_t s, std::size_t g, std::size_t d) {
        return (((b * sequence + s) * kv_heads + h) * group + g) * width + d;
      };
      auto const x = [&](std::size_t s, std::size_t slot, std::size_t d) {
        return static_cast<double>(qkv[in(s, slot, d)]);
      };
      std::vector<double> dk(sequence * width), dv(sequence * width), size_k(dk.size()), size_v(dk.size());
      for (std::size_t g = 0; g < group; ++g)
        for (std::size_t t = 0; t < sequence; ++t) {
          std::vector<double> p(t + 1), ds(t + 1);
          double sum = 0, inner = 0;
          for (std::size_t j = 0; j <= t; ++j) {
            double score = 0;
            for (std::size_t d = 0; d < width; ++d) score += x(t, g, d) * x(j, group, d) * scale;
            sum += p[j] = std::exp(score);
          }
          of_lse.see(lse[((b * kv_heads + h) * group + g) * sequence + t], std::log(sum), float_error * 8);
          for (std::size_t d = 0; d < width; ++d) {
            double exact = 0, size = 0;
            for (std::size_t j = 0; j <= t; ++j) {
              exact += p[j] / sum * x(j, group + 1, d);
              size += p[j] / sum * std::fabs(x(j, group + 1, d));
            }
            of_y.see(static_cast<double>(y[out(t, g, d)]), exact, u * std::fabs(exact) + (u + float_error) * size);
            inner += static_cast<double>(y[out(t, g, d)]) * static_cast<double>(dy[out(t, g, d)]);  // y as it is stored
          }
          for (std::size_t j = 0; j <= t; ++j) {
            double dp = 0;
            for (std::size_t d = 0; d < width; ++d) dp += static_cast<double>(dy[out(t, g, d)]) * x(j, group + 1, d);
            ds[j] = p[j] / sum * (dp - inner);
            // Float's roundings of dp and inner are of terms that may cancel.
            double const fine = float_error * p[j] / sum * (std::fabs(dp) + std::fabs(inner) + 8);
            for (std::size_t d = 0; d < width; ++d) {
              double const q = x(t, g, d) * scale, g_out = static_cast<double>(dy[out(t, g, d)]);
              dk[j * width + d] += ds[j] * q;
              size_k[j * width + d] += (u * std::fabs(ds[j]) + fine) * std::fabs(q);
              dv[j * width + d] += p[j] / sum * g_out;
              size_v[j * width + d] += (u + float_error) * p[j] / sum * std::fabs(g_out);
            }
          }
          for (std::size_t d = 0; d < width; ++d) {
            double exact = 0, size = 0;
            for (std::size_t j = 0; j <= t; ++j) {
              exact += ds[j] * x(j, group, d) * scale;
              size += (u * std::fabs(ds[j]) + float_error * p[j] / sum * 64) * std::fabs(x(j, group, d)) * scale;
            }
            of_q.see(static_cast<double>(dqkv[in(t, g, d)]), exact, u * std::fabs(exact) + size + 1e-7);
          }
        }
      for (std::size_t j = 0; j < sequence; ++j)
        for (std::size_t d = 0; d < width; ++d) {
          std::size_t const i = j * width + d;
          of_k.see(static_cast<double>(dqkv[in(j, group, d)]), dk[i], u * std::fabs(dk[i]) + size_k[i] + 1e-7);
          of_v.see(static_cast<double>(dqkv[in(j, group + 1, d)]), dv[i], u * std::fabs(dv[i]) + size_v[i] + 1e-7);
        }
    }
  CHECK(of_lse.worst <= 1);
  CHECK(of_y.worst <= 1);
  CHECK(of_q.worst <= 1);
  CHECK(of_k.worst <= 1);
  CHECK(of_v.worst <= 1);
  // Probabilities are rounded: sums in float alone would give what float gives, rounded.
  std::vector<float> wide(qkv.size()), wide_y(y.size());
  for (std::size_t i = 0; i < qkv.size(); ++i) wide[i] = static_cast<float>(qkv[i]);
  B::attention<batch, sequence, kv_heads, group, width>(wide.data(), wide_y.data(), lse.data(), scratch.data());
  std::size_t differ = 0;
  for (std::size_t i = 0; i < y.size(); ++i)
    differ += static_cast<float>(y[i]) != static_cast<float>(static_cast<T>(wide_y[i]));
  CHECK(differ > y.size() / 10);
}

}  // namespace narrow_attention
