// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <heddle/backend/host/random.hpp>
#include <limits>
#include <random/dropout.cuh>
#include <support/geometry.cuh>
#include <vector>

#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::guarded;
using emulation::launch;
using emulation::rounded;
using emulation::values;
using emulation::wide;

/// Bits, so that -0 is not 0; but one NaN is as good as another.
template <class A>
bool same_bits(std::vector<A> const& a, std::vector<A> const& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i)
    same = (a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i])) || (std::isnan(a[i]) && std::isnan(b[i]));
  return same;
}

struct layout {
  char const* name;
  index_map map;
};
std::vector<layout> const layouts{
    {"a scalar", {.origin = 6}},
    {"a vector", {.rank = 1, .extent = {257}, .valid = {257}, .stride = {1}}},
    {"one element of it", {.rank = 1, .extent = {1}, .valid = {1}, .stride = {1}, .origin = 3}},
    {"a vector's part that begins within a group",
     {.rank = 1, .extent = {131}, .valid = {131}, .stride = {1}, .origin = 517}},
    {"padded", {.rank = 1, .extent = {40}, .valid = {33}, .stride = {1}, .origin = 64}},
    {"padding alone", {.rank = 1, .extent = {40}, .valid = {0}, .stride = {1}, .origin = 64}},
    {"rows", {.rank = 2, .extent = {7, 24}, .valid = {7, 24}, .stride = {24, 1}, .origin = 48}},
    {"columns of rows, odd", {.rank = 2, .extent = {9, 11}, .valid = {9, 11}, .stride = {33, 1}, .origin = 22}},
    {"columns that are padded", {.rank = 2, .extent = {9, 11}, .valid = {9, 6}, .stride = {28, 1}, .origin = 22}},
    {"rows that are padded", {.rank = 2, .extent = {9, 8}, .valid = {5, 8}, .stride = {16, 1}, .origin = 8}},
    {"a column", {.rank = 2, .extent = {50, 1}, .valid = {50, 1}, .stride = {13, 13}, .origin = 5}},
    {"three dimensions, both padded",
     {.rank = 3, .extent = {3, 5, 6}, .valid = {2, 4, 5}, .stride = {1000, 17, 1}, .origin = 400}},
    {"beyond 2^32",
     {.rank = 2, .extent = {3, 40}, .valid = {3, 40}, .stride = {0x300000001, 1}, .origin = 0x123456789A}},
};
random_key const key{.seed = 5, .step = 0x100000002, .site = 9};

template <class A>
struct arrays {
  std::vector<A> x, base;
};
/// A few elements are infinite or NaN. `padding` is what x holds there; the base has zeros.
template <class T>
arrays<wide<T>> arrays_of(index_map const& map, wide<T> padding) {
  using A = wide<T>;
  std::size_t const n = map.size();
  arrays<A> out{values<T>(n, 1), values<T>(n, 2)};
  for (std::size_t i = 0; i < n; i += 7) out.x[i] = std::numeric_limits<A>::infinity();
  for (std::size_t i = 3; i < n; i += 11) out.x[i] = std::numeric_limits<A>::quiet_NaN();
  std::vector<char> real(n);
  for_each_run(map, [&](std::size_t local, std::size_t count, std::uint64_t) {
    for (std::size_t i = 0; i < count; ++i) real[local + i] = 1;
  });
  for (std::size_t i = 0; i < n; ++i)
    if (real[i] == 0) {
      out.x[i] = padding;
      out.base[i] = A(0);
    }
  return out;
}

enum class into : std::uint8_t { other, x, base };

/// What the kernel writes over `target`, beginning `offset` elements after a multiple of 16 bytes.
template <class T, int Threads>
std::vector<wide<T>> dropped(arrays<wide<T>> const& in, bool with_base, into target, index_map const& map, double p,
                             unsigned grid, std::size_t offset) {
  std::size_t const n = in.x.size();
  guarded<T> x(in.x, offset), base(in.base, offset), other(n, offset);
  guarded<T>& y = target == into::x ? x : target == into::base ? base : other;
  guarded<std::uint64_t> const step(std::vector<std::uint64_t>{key.step});
  step_key const stream({.seed = key.seed, .step = 77, .site = key.site}, step.read());
  launch<kernels::dropout<T, Threads>>(kernels::pack_grid<T, Threads>(static_cast<long long>(n), grid), dim3(Threads),
                                       x.read(), with_base ? base.read() : nullptr, y.data(), static_cast<long long>(n),
                                       kernels::index_runs::of(map), stream, kernels::dropout_rate<wide<T>>::of(p));
  return y.values();
}

template <class T, int Threads>
void check_dropout(unsigned grid, std::size_t offset) {
  for (layout const& one : layouts)
    for (double const p : {0.0, 0x1p-33, 0.1, 0.5, 0.9, 1 - 0x1p-40}) {
      CAPTURE(one.name);
      CAPTURE(p);
      CAPTURE(Threads);
      // Where a value stands in padding it is not to be looked at; in place it would stay, so there it is 0.
      arrays<wide<T>> const in = arrays_of<T>(one.map, p == 0 ? 0 : -9), clean = arrays_of<T>(one.map, 0);
      for (bool const with_base : {false, true}) {
        std::vector<wide<T>> expected(in.x.size());
        host::random::dropout(in.x.data(), with_base ? in.base.data() : nullptr, expected.data(), one.map, key, p);
        expected = rounded<T>(expected);
        index_map const merged = heddle::merged(one.map);
        CHECK(same_bits(dropped<T, Threads>(in, with_base, into::other, one.map, p, grid, offset), expected));
        CHECK(same_bits(dropped<T, Threads>(in, with_base, into::other, merged, p, grid, offset), expected));
        CHECK(same_bits(dropped<T, Threads>(clean, with_base, into::x, merged, p, grid, offset), expected));
        if (with_base)
          CHECK(same_bits(dropped<T, Threads>(in, with_base, into::base, merged, p, grid, offset), expected));
      }
    }
}

}  // namespace

TEST_CASE("dropout has the host's bits: parts, padding, bases, in place, at any address, in any grid") {
  check_dropout<float, 32>(1, 0);
  check_dropout<double, 32>(3, 0);
  check_dropout<float, 64>(2, 1);
  check_dropout<double, 64>(1, 1);
  // The mask of float, computed in float, rounded once.
  check_dropout<__nv_bfloat16, 32>(2, 0);
  check_dropout<__half, 32>(1, 1);
}
TEST_CASE("dropout takes its step from device memory: a launch repeated as it was has the mask of another step") {
  std::size_t const n = 256;
  index_map const map{.rank = 1, .extent = {n}, .valid = {n}, .stride = {1}};
  guarded<float> const x(std::vector<float>(n, 1));
  guarded<float> y(n);
  guarded<std::uint64_t> in_memory(std::vector<std::uint64_t>{0});
  step_key const drawn({.seed = 5, .step = 77, .site = 9}, in_memory.read());
  for (std::uint64_t step = 0; step < 3; ++step) {
    random_key const now{.seed = 5, .step = step, .site = 9};
    *in_memory.data() = step;
    launch<kernels::dropout<float, 32>>(dim3(1), dim3(32), x.read(), nullptr, y.data(), static_cast<long long>(n),
                                        kernels::index_runs::of(map), drawn, kernels::dropout_rate<float>::of(0.5));
    std::vector<float> expected(n);
    host::random::dropout(x.values().data(), static_cast<float const*>(nullptr), expected.data(), map, now, 0.5);
    CHECK(same_bits(y.values(), expected));
  }
}
TEST_CASE("dropout keeps from the probability's word on: uniform >= p") {
  index_map const map{.rank = 1, .extent = {8}, .valid = {8}, .stride = {1}};
  arrays<double> const ones{std::vector<double>(8, 1), {}};
  for (std::size_t i = 0; i < 8; ++i) {
    double const p = uniform<double>(random_stream{key}.word(i));
    CHECK(dropped<double, 32>(ones, false, into::other, map, p, 1, 0)[i] == 1 / (1 - p));
    CHECK(dropped<double, 32>(ones, false, into::other, map, p + 0x1p-32, 1, 0)[i] == 0);
  }
}
TEST_CASE("known-faults RN-1 and RN-3: backward has forward's mask, and four neighbours have words of their own") {
  std::size_t const n = 1 << 14;
  index_map const map{.rank = 1, .extent = {n}, .valid = {n}, .stride = {1}};
  arrays<float> const ones{std::vector<float>(n, 1), {}};
  std::vector<float> const y = dropped<float, 256>(ones, false, into::other, map, 0.5, 2, 0);
  arrays<float> const dy{values<float>(n, 3), {}};
  std::vector<float> const dx = dropped<float, 128>(dy, false, into::other, map, 0.5, 1, 1);
  std::size_t kept = 0, alike = 0;
  for (std::size_t i = 0; i < n; ++i) {
    CHECK((y[i] == 0 || y[i] == 2));
    CHECK(dx[i] == y[i] * dy.x[i]);
    if (y[i] != 0) ++kept;
    if (i % 4 == 0 && y[i] == y[i + 1] && y[i] == y[i + 2] && y[i] == y[i + 3]) ++alike;
  }
  // 4 standard deviations: 64 of the elements, 21 of the groups.
  CHECK(std::fabs(static_cast<double>(kept) - static_cast<double>(n) / 2) < 256);
  CHECK(std::fabs(static_cast<double>(alike) - static_cast<double>(n) / 32) < 85);
}
