// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/backend/host/attention.hpp>
#include "plain_attention.hpp"

using heddle::host::attentions;

namespace {

/// The sizes at run time, so that the checks are compiled once.
struct sizes {
  std::size_t batch, sequence, kv_heads, group, head_size, scratch, backward_scratch;
  [[nodiscard]] std::size_t input(std::size_t b, std::size_t s, std::size_t h, std::size_t slot) const {
    return (((b * sequence + s) * kv_heads + h) * (group + 2) + slot) * head_size;
  }
  [[nodiscard]] std::size_t output(std::size_t b, std::size_t s, std::size_t h, std::size_t g) const {
    return (((b * sequence + s) * kv_heads + h) * group + g) * head_size;
  }
};

/// Runs the fused primitive and its backward between guards and compares each head with the formula.
template <class T>
void check(sizes const& n, void (*forward)(T const*, T*, T*, T*),
           void (*backward)(T const*, T const*, T const*, T const*, T*, T*), double tolerance) {
  CAPTURE(n.sequence);
  CAPTURE(n.head_size);
  CAPTURE(n.group);
  guarded<T> qkv(n.input(n.batch, 0, 0, 0)), dqkv(qkv.size()), y(n.output(n.batch, 0, 0, 0)), dy(y.size()),
      lse(y.size() / n.head_size), scratch(n.scratch), backward_scratch(n.backward_scratch);
  for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<T>(2 * scattered(i));
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<T>(scattered(i + 77));
  for (std::size_t i = 0; i < dqkv.size(); ++i) dqkv[i] = T(1e30);  // written, not added to
  forward(qkv.data(), y.data(), lse.data(), scratch.data());
  backward(qkv.data(), y.data(), lse.data(), dy.data(), dqkv.data(), backward_scratch.data());
  for (guarded<T>* b : {&qkv, &dqkv, &y, &dy, &lse, &scratch, &backward_scratch}) CHECK(b->untouched());

  std::vector<double> expected_y(y.size()), expected_lse, expected_dqkv(qkv.size());
  for (std::size_t b = 0; b < n.batch; ++b)
    for (std::size_t h = 0; h < n.kv_heads; ++h)
      for (std::size_t g = 0; g < n.group; ++g) {
        std::vector<double> q, k, v, d;
        for (std::size_t s = 0; s < n.sequence; ++s)
          for (std::size_t e = 0; e < n.head_size; ++e) {
            q.push_back(static_cast<double>(qkv[n.input(b, s, h, g) + e]));
            k.push_back(static_cast<double>(qkv[n.input(b, s, h, n.group) + e]));
            v.push_back(static_cast<double>(qkv[n.input(b, s, h, n.group + 1) + e]));
            d.push_back(static_cast<double>(dy[n.output(b, s, h, g) + e]));
          }
        plain_attention const plain(n.sequence, n.sequence, n.head_size, q, k, v, d);
        expected_lse.insert(expected_lse.end(), plain.log_sum_exp.begin(), plain.log_sum_exp.end());
        for (std::size_t s = 0; s < n.sequence; ++s)
          for (std::size_t e = 0; e < n.head_size; ++e) {
            expected_y[n.output(b, s, h, g) + e] = plain.y[s * n.head_size + e];
            expected_dqkv[n.input(b, s, h, g) + e] = plain.dq[s * n.head_size + e];
            expected_dqkv[n.input(b, s, h, n.group) + e] += plain.dk[s * n.head_size + e];
            expected_dqkv[n.input(b, s, h, n.group + 1) + e] += plain.dv[s * n.head_size + e];
          }
      }
  CHECK(largest_error(y, expected_y) < tolerance);
  CHECK(largest_error(lse, expected_lse) < tolerance);
  CHECK(largest_error(dqkv, expected_dqkv) < tolerance);
}

template <class T, std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group, std::size_t HeadDim>
void check_fused(double tolerance) {
  using f = attentions;
  check<T>({Batch, Sequence, KvHeads, Group, HeadDim, f::attention_scratch<Batch, Sequence, KvHeads, Group, HeadDim>(),
            f::attention_backward_scratch<Batch, Sequence, KvHeads, Group, HeadDim>()},
           &f::attention<Batch, Sequence, KvHeads, Group, HeadDim, T>,
           &f::attention_backward<Batch, Sequence, KvHeads, Group, HeadDim, T>, tolerance);
}

template <class T, std::size_t HeadDim>
void check_lengths(double tolerance) {
  check_fused<T, 1, 1, 2, 1, HeadDim>(tolerance);
  check_fused<T, 1, 63, 2, 1, HeadDim>(tolerance);
  check_fused<T, 1, 64, 2, 1, HeadDim>(tolerance);
  check_fused<T, 1, 65, 2, 1, HeadDim>(tolerance);
  check_fused<T, 1, 127, 2, 1, HeadDim>(tolerance);
  check_fused<T, 1, 129, 2, 1, HeadDim>(tolerance);
}

}  // namespace

// Lengths, head sizes and fp32 tolerance: 66RING/tiny-flash-attention issue 12, whose tiles did not mask their tails.
TEST_CASE("FA-3: lengths and head sizes that fill no tile, fp32") {
  check_lengths<float, 1>(1e-5);
  check_lengths<float, 16>(1e-5);
  check_lengths<float, 63>(1e-5);
  check_lengths<float, 64>(1e-5);
  check_lengths<float, 80>(1e-5);
}

// 1e-12: some hundred roundings of 1e-16 with values below 100.
TEST_CASE("FA-3 in fp64") {
  check_lengths<double, 1>(1e-12);
  check_lengths<double, 63>(1e-12);
  check_lengths<double, 80>(1e-12);
}

TEST_CASE("groups of query heads share keys and values, and their gradients add up") {
  check_fused<double, 2, 37, 3, 1, 16>(1e-12);
  check_fused<double, 2, 37, 2, 2, 16>(1e-12);
  check_fused<double, 2, 37, 1, 4, 16>(1e-12);
  check_fused<float, 2, 70, 2, 4, 16>(1e-5);
}
