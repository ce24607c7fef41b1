// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <heddle/backend/host/optimizer.hpp>
#include <limits>
#include <optimizer/adamw.cuh>
#include <optimizer/norm_and_check.cuh>
#include <vector>

#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::check_near;
using emulation::launch;
using emulation::values;

constexpr std::size_t guard = 9;
std::vector<std::size_t> const sizes{0, 1, 31, 33, 0, 64, 257, 1000, 0};

/// The chunks of tensors of `sizes`, and with `first` the first chunk of each.
std::vector<kernels::tensor_chunk> chunks_of(int length, std::vector<long long>& first) {
  std::vector<kernels::tensor_chunk> chunks;
  first.clear();
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    first.push_back(static_cast<long long>(chunks.size()));
    for (long long at = 0; at < static_cast<long long>(sizes[t]); at += length)
      chunks.push_back({at, static_cast<int>(t)});
  }
  first.push_back(static_cast<long long>(chunks.size()));
  return chunks;
}

std::vector<adamw_coefficients> const coefficients{{.learning_rate = 3e-3,
                                                    .weight_decay = 0.1,
                                                    .bias_correction1 = 0.1,
                                                    .bias_correction2 = 1e-3,
                                                    .gradient_scale = 0.3},
                                                   {.learning_rate = 0.5,
                                                    .beta1 = 0.8,
                                                    .beta2 = 0.95,
                                                    .epsilon = 1e-3,
                                                    .bias_correction1 = 0.6,
                                                    .bias_correction2 = 0.3}};

template <class T>
struct parameter {
  std::vector<T> w, g, m, v;
};
template <class T>
std::vector<parameter<T>> parameters() {
  std::vector<parameter<T>> all;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    std::size_t const n = sizes[t];
    parameter<T> one{values<T>(n, 4 * t), values<T>(n, 4 * t + 1, 2), values<T>(n, 4 * t + 2, 0.5),
                     values<T>(n, 4 * t + 3, 0.5)};
    for (T& x : one.v) x = x * x;
    all.push_back(one);
  }
  return all;
}

/// Two steps of all tensors by the kernel, each array beginning `offset` elements after a multiple of 16 bytes.
template <class T, int Threads>
std::vector<parameter<T>> stepped(int length, std::size_t offset, bool rounds) {
  std::vector<parameter<T>> all = parameters<T>();
  std::vector<std::vector<T>> copy(all.size());
  std::vector<kernels::adamw_tensor<T>> list;
  auto const border = [&](std::vector<T>& x) {
    x.insert(x.begin(), offset, T(-7));
    x.resize(x.size() + guard, T(-7));
    return x.data() + offset;
  };
  for (std::size_t t = 0; t < all.size(); ++t) {
    parameter<T>& p = all[t];
    copy[t].resize(sizes[t]);
    T* const to = border(copy[t]);
    list.push_back({border(p.w), border(p.g), border(p.m), border(p.v), rounds ? to : nullptr,
                    static_cast<long long>(sizes[t]), static_cast<int>(t % 2)});
  }
  std::vector<kernels::adamw_factors<T>> factors;
  for (adamw_coefficients const& c : coefficients) factors.push_back(kernels::adamw_factors<T>::of(c));
  std::vector<long long> first;
  std::vector<kernels::tensor_chunk> const chunks = chunks_of(length, first);
  for (int step = 0; step < 2; ++step)
    launch("adamw", kernels::adamw<T, Threads>, dim3(static_cast<unsigned>(chunks.size())), dim3(Threads), list.data(),
           chunks.data(), length, factors.data());
  for (std::size_t t = 0; t < all.size(); ++t) {
    for (std::vector<T>* x : {&all[t].w, &all[t].g, &all[t].m, &all[t].v, &copy[t]}) {
      for (std::size_t i = 0; i < offset; ++i) CHECK((*x)[i] == T(-7));
      for (std::size_t i = offset + sizes[t]; i < x->size(); ++i) CHECK((*x)[i] == T(-7));
      x->resize(offset + sizes[t]);
      x->erase(x->begin(), x->begin() + static_cast<std::ptrdiff_t>(offset));
    }
    if (rounds) CHECK(copy[t] == all[t].w);
  }
  return all;
}

template <class T>
void check_adamw() {
  std::vector<parameter<T>> expected = parameters<T>();
  std::vector<parameter<T>> const got = stepped<T, 32>(64, 0, true);
  for (std::size_t t = 0; t < expected.size(); ++t) {
    parameter<T>& p = expected[t];
    for (int step = 0; step < 2; ++step)
      host::optimizers::adamw(p.w.data(), p.g.data(), p.m.data(), p.v.data(), sizes[t], coefficients[t % 2]);
    CAPTURE(t);
    check_near(got[t].w, p.w, 4);  // the host's compiler may fuse products and sums
    check_near(got[t].m, p.m, 4);
    check_near(got[t].v, p.v, 4);
    CHECK(got[t].g == p.g);
  }
  // The bits do not depend on blocks, chunks and addresses.
  for (std::vector<parameter<T>> const& other :
       {stepped<T, 128>(64, 1, false), stepped<T, 64>(4096, 0, false), stepped<T, 32>(24, 3, true)})
    for (std::size_t t = 0; t < expected.size(); ++t) {
      CHECK(got[t].w == other[t].w);
      CHECK(got[t].m == other[t].m);
      CHECK(got[t].v == other[t].v);
    }
}

template <class T, int Threads>
void check_sums(int length, std::size_t offset) {
  CAPTURE(length);
  CAPTURE(offset);
  std::vector<std::vector<T>> x;
  std::vector<kernels::listed_tensor<T>> list;
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    // Squares beyond float's range, and below it.
    x.push_back(values<T>(offset + sizes[t] + guard, t, t == 6 ? 1e30 : t == 3 ? 1e-30 : 2));
    for (std::size_t i = 0; i < x[t].size(); ++i)
      if (i < offset || i >= offset + sizes[t]) x[t][i] = std::numeric_limits<T>::quiet_NaN();
  }
  for (std::size_t t = 0; t < sizes.size(); ++t)
    list.push_back({x[t].data() + offset, static_cast<long long>(sizes[t])});
  std::vector<long long> first;
  std::vector<kernels::tensor_chunk> const chunks = chunks_of(length, first);
  dim3 const grid(static_cast<unsigned>(chunks.size())), tensors(static_cast<unsigned>(sizes.size()));

  std::vector<double> part(chunks.size() + guard, -7), sum(sizes.size() + guard, -7);
  launch("sum_of_squares", kernels::sum_of_squares<T, Threads>, grid, dim3(Threads), list.data(), chunks.data(), length,
         part.data());
  launch("sum_parts", kernels::sum_parts<double, Threads>, tensors, dim3(Threads), part.data(), first.data(),
         sum.data());
  for (std::size_t t = 0; t < sizes.size(); ++t) {
    double const expected = host::optimizers::sum_of_squares(x[t].data() + offset, sizes[t]);
    CAPTURE(t);
    CHECK(std::fabs(sum[t] - expected) <= 1e-14 * expected);
  }

  std::vector<long long> counted(chunks.size() + guard, -7), bad(sizes.size() + guard, -7);
  auto const count = [&] {
    launch("count_not_finite", kernels::count_not_finite<T, Threads>, grid, dim3(Threads), list.data(), chunks.data(),
           length, counted.data());
    launch("sum_parts", kernels::sum_parts<long long, Threads>, tensors, dim3(Threads), counted.data(), first.data(),
           bad.data());
  };
  count();
  for (std::size_t t = 0; t < sizes.size(); ++t) CHECK(bad[t] == 0);
  x[1][offset] = std::numeric_limits<T>::quiet_NaN();
  x[6][offset + 256] = std::numeric_limits<T>::infinity();
  x[7][offset] = -std::numeric_limits<T>::infinity();
  x[7][offset + 999] = std::numeric_limits<T>::max();
  x[7][offset + 500] = std::numeric_limits<T>::quiet_NaN();
  count();
  std::vector<long long> const expected{0, 1, 0, 0, 0, 0, 1, 2, 0};
  for (std::size_t t = 0; t < sizes.size(); ++t) CHECK(bad[t] == expected[t]);
  for (std::size_t i = 0; i < guard; ++i) {
    CHECK(part[chunks.size() + i] == -7);
    CHECK(sum[sizes.size() + i] == -7);
    CHECK(counted[chunks.size() + i] == -7);
    CHECK(bad[sizes.size() + i] == -7);
  }
}

}  // namespace

TEST_CASE("AdamW over a list of tensors, some without elements, is the host's; the bits depend on no launch") {
  check_adamw<float>();
  check_adamw<double>();
}
TEST_CASE("known-faults AD-1: epsilon after the bias correction and outside the root; AD-3: corrected steps are 1") {
  std::vector<double> w{0}, m{0}, v{0}, g{1e-8};
  std::vector<kernels::tensor_chunk> const chunk{{0, 0}};
  std::vector<kernels::adamw_tensor<double>> const list{{w.data(), g.data(), m.data(), v.data(), nullptr, 1, 0}};
  auto const step = [&](double t, double epsilon) {
    std::vector<kernels::adamw_factors<double>> const factors{
        kernels::adamw_factors<double>::of({.learning_rate = 1,
                                            .epsilon = epsilon,
                                            .bias_correction1 = 1 - std::pow(0.9, t),
                                            .bias_correction2 = 1 - std::pow(0.999, t)})};
    double const before = w[0];
    launch("adamw", kernels::adamw<double, 32>, dim3(1), dim3(32), list.data(), chunk.data(), 8, factors.data());
    return before - w[0];
  };
  CHECK(step(1, 1e-8) == doctest::Approx(0.5));
  w[0] = m[0] = v[0] = 0;
  g[0] = 1;
  for (int t = 1; t <= 5; ++t) CHECK(step(t, 1e-12) == doctest::Approx(1.0).epsilon(1e-6));
}
TEST_CASE("sums of squares, and elements that are not finite, of each tensor of a list") {
  check_sums<float, 32>(64, 0);
  check_sums<float, 128>(64, 1);
  check_sums<double, 64>(24, 0);
  check_sums<double, 32>(4096, 1);
  check_sums<float, 256>(4096, 0);
}
TEST_CASE("known-faults BF-1: AdamW with gradients in bfloat16 keeps its weights in float, and rounds a copy") {
  using narrow = __nv_bfloat16;
  for (std::size_t n : {64, 77}) {
    std::vector<narrow> const g = values<narrow>(n, 1);
    std::vector<float> w(n, 1), m(n, 0), v(n, 0), wide_g(g.begin(), g.end());
    std::vector<float> expected_w = w, expected_m = m, expected_v = v;
    std::vector<narrow> copy(n + guard, narrow(-7.0F));
    adamw_coefficients const c{.learning_rate = 1e-3, .bias_correction1 = 0.1, .bias_correction2 = 1e-3};
    std::vector<kernels::tensor_chunk> const chunks{{0, 0}, {32, 0}, {64, 0}};
    std::vector<kernels::adamw_tensor<narrow>> const list{
        {w.data(), g.data(), m.data(), v.data(), copy.data(), static_cast<long long>(n), 0}};
    std::vector<kernels::adamw_factors<float>> const factors{kernels::adamw_factors<float>::of(c)};
    for (int step = 0; step < 3; ++step) {
      launch("adamw", kernels::adamw<narrow, 32>, dim3(n > 64 ? 3 : 2), dim3(32), list.data(), chunks.data(), 32,
             factors.data());
      host::optimizers::adamw(expected_w.data(), wide_g.data(), expected_m.data(), expected_v.data(), n, c);
    }
    check_near(w, expected_w, 4);
    check_near(m, expected_m, 4);
    check_near(v, expected_v, 4);
    for (std::size_t i = 0; i < n; ++i) {
      CHECK(w[i] != 1);
      CHECK(float(copy[i]) == float(narrow(w[i])));
    }
    for (std::size_t i = n; i < n + guard; ++i) CHECK(float(copy[i]) == -7);
  }
}
