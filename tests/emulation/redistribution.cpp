// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cast/cast.cuh>
#include <cmath>
#include <cstdint>
#include <heddle/tensor/host_memory.hpp>
#include <limits>
#include <redistribution/blocks.cuh>
#include <redistribution/shares.cuh>
#include <vector>

#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::guarded;
using emulation::launch;
using emulation::values;
using emulation::wide;

template <class T>
std::vector<T> stored(std::vector<wide<T>> const& all) {
  return {all.begin(), all.end()};
}
template <class T>
std::vector<wide<T>> widened(std::vector<T> const& all) {
  std::vector<wide<T>> out;
  for (T const one : all) out.push_back(static_cast<wide<T>>(one));
  return out;
}

template <class T, int Threads>
void check_blocks(long long outer, long long extent, long long inner, long long ways, std::size_t offset) {
  CAPTURE(outer);
  CAPTURE(extent);
  CAPTURE(inner);
  CAPTURE(ways);
  CAPTURE(offset);
  block_view const view{static_cast<std::size_t>(outer), static_cast<std::size_t>(extent),
                        static_cast<std::size_t>(inner), static_cast<std::size_t>(ways)};
  auto const size = static_cast<std::size_t>(outer * extent * inner);
  std::vector<wide<T>> const tensor = values<T>(size, 3);
  kernels::blocks_shape const shape = kernels::blocks_of(outer, extent, inner, ways);
  long long const n = kernels::blocks_size(shape, ways);
  dim3 const grid = kernels::pack_grid<T, Threads>(n, 3);
  std::vector<T> packed(static_cast<std::size_t>(n));
  host_memory::blocks_to_front(view, stored<T>(tensor).data(), packed.data());

  guarded<T> const there(tensor, offset);
  guarded<T> front(packed.size(), offset), back(size, offset);
  launch<kernels::blocks_to_front<T, Threads>>(grid, dim3(Threads), there.read(), front.data(), shape, n);
  CHECK(front.values() == widened(packed));
  launch<kernels::blocks_from_front<T, Threads>>(grid, dim3(Threads), front.read(), back.data(), shape, n);
  CHECK(back.values() == tensor);

  // A local slice is one of the blocks.
  for (long long const rank : {0LL, ways - 1}) {
    kernels::blocks_shape const one = kernels::blocks_of(outer, extent, inner, ways, rank);
    long long const part = kernels::blocks_size(one, 1);
    guarded<T> slice(static_cast<std::size_t>(part), offset);
    launch<kernels::blocks_to_front<T, Threads>>(kernels::pack_grid<T, Threads>(part, 100), dim3(Threads), there.read(),
                                                 slice.data(), one, part);
    auto const from = packed.begin() + static_cast<std::ptrdiff_t>(rank * part);
    CHECK(slice.values() == widened(std::vector<T>(from, from + static_cast<std::ptrdiff_t>(part))));
  }
}

/// The shares of a tensor after scatters of these dimensions in these numbers of ways.
struct scatter {
  std::size_t dim, ways;
};
scattering scattered(std::vector<std::size_t> const& extents, std::vector<scatter> const& scatters) {
  scattering s{};
  s.rank = extents.size();
  for (std::size_t k = 0; k < s.rank; ++k) s.whole[k] = s.share[k] = extents[k];
  for (scatter const& one : scatters) {
    s.dim[s.count] = one.dim;
    s.ways[s.count++] = one.ways;
    s.all_ways *= one.ways;
    s.share[one.dim] = block_extent(s.share[one.dim], one.ways);
  }
  for (std::size_t k = 0; k < s.rank; ++k) s.size *= s.share[k];
  return s;
}

template <class T, class Gradient, int Threads>
void check_shares(scattering const& s, std::size_t begin, std::size_t count, std::size_t stride, std::size_t offset) {
  CAPTURE(s.rank);
  CAPTURE(s.count);
  CAPTURE(begin);
  CAPTURE(count);
  CAPTURE(offset);
  std::size_t size = 1;
  for (std::size_t k = 0; k < s.rank; ++k) size *= s.whole[k];
  std::vector<wide<T>> const tensor = values<T>(size, 5);
  std::size_t const length = s.all_ways * stride;
  // What stands between the shares is left alone.
  std::vector<T> packed(length, T(-7.0F));
  host_memory::pack_shares(s, stored<T>(tensor).data(), begin, count, packed.data(), stride);
  kernels::share_map const map = kernels::share_map::of(s);
  dim3 const grid = kernels::share_grid<T, Threads>(static_cast<long long>(count), map.ways, 2),
             cast_grid = kernels::share_grid<kernels::cast_unit_t<T, Gradient>, Threads>(static_cast<long long>(count),
                                                                                         map.ways, 2);
  auto const first = static_cast<long long>(begin), elements = static_cast<long long>(count),
             apart = static_cast<long long>(stride);
  guarded<T> const there(tensor, offset);
  guarded<T> travels = guarded<T>::sum(std::vector<wide<T>>(length, -7), offset);
  launch<kernels::pack_shares<T, T, Threads>>(grid, dim3(Threads), there.read(), map, first, elements, travels.data(),
                                              apart);
  CHECK(travels.values() == widened(packed));

  std::vector<Gradient> const before = stored<Gradient>(values<Gradient>(size, 6));
  // A gradient of its own type, in that of what travels.
  std::vector<T> cast(length, T(-7.0F));
  host_memory::pack_shares(s, before.data(), begin, count, cast.data(), stride);
  guarded<Gradient> const own(widened(before), offset);
  guarded<T> casts = guarded<T>::sum(std::vector<wide<T>>(length, -7), offset);
  launch<kernels::pack_shares<Gradient, T, Threads>>(cast_grid, dim3(Threads), own.read(), map, first, elements,
                                                     casts.data(), apart);
  CHECK(casts.values() == widened(cast));
  for (bool const adds : {false, true}) {
    std::vector<Gradient> expected = before;
    for_each_share_run(s, begin, count,
                       [&](std::size_t w, std::size_t at, std::size_t to, std::size_t real, std::size_t) {
                         for (std::size_t i = 0; i < real; ++i) {
                           Gradient& one = expected[to + i];
                           T const from = packed[w * stride + at + i];
                           one = adds ? Gradient(static_cast<wide<Gradient>>(one) +
                                                 static_cast<wide<Gradient>>(static_cast<wide<T>>(from)))
                                      : Gradient(from);
                         }
                       });
    guarded<Gradient> out = guarded<Gradient>::sum(widened(before), offset);
    if (adds)
      launch<kernels::unpack_shares<T, Gradient, true, Threads>>(cast_grid, dim3(Threads), travels.read(), map, first,
                                                                 elements, out.data(), apart);
    else
      launch<kernels::unpack_shares<T, Gradient, false, Threads>>(cast_grid, dim3(Threads), travels.read(), map, first,
                                                                  elements, out.data(), apart);
    CHECK(out.values() == widened(expected));
  }
}
template <class T, class Gradient>
void check_all_shares() {
  scattering const cases[] = {
      scattered({}, {}),
      scattered({37}, {}),
      scattered({37}, {{0, 4}}),
      scattered({7, 24}, {{0, 2}}),
      scattered({6, 50}, {{1, 4}}),
      scattered({7, 24}, {{0, 2}, {1, 3}}),
      scattered({7, 24}, {{1, 3}, {0, 2}}),
      scattered({9, 16}, {{0, 2}, {0, 3}}),  // a block of a block, with padding in both
      scattered({3, 2, 8}, {{1, 4}}),        // more ways than indices
      scattered({2, 5, 16}, {{2, 2}, {1, 2}, {0, 2}}),
  };
  for (scattering const& s : cases)
    for (std::size_t const offset : {0, 1}) {
      check_shares<T, Gradient, 32>(s, 0, s.size, (s.size + 7) / 8 * 8, offset);
      if (s.size > 3) check_shares<T, Gradient, 64>(s, 1, s.size - 2, s.size, offset);
    }
}

template <class From, class To>
void check_cast() {
  double const most = 1.0e5;
  std::vector<wide<From>> x = values<From>(333, 9, most);
  for (std::size_t i = 0; i < 100; ++i) x[i] *= static_cast<wide<From>>(std::ldexp(1.0, -static_cast<int>(i)));
  x[100] = 0;
  x[101] = std::numeric_limits<wide<From>>::infinity();
  x[102] = -x[101];
  x[103] = std::numeric_limits<wide<From>>::quiet_NaN();
  x = emulation::rounded<From>(x);
  for (std::size_t const n : {std::size_t{1}, std::size_t{8}, x.size()})
    for (std::size_t const offset : {0, 1}) {
      std::vector<wide<From>> const part(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n));
      std::vector<wide<To>> expected;
      for (wide<From> const one : part)
        expected.push_back(static_cast<wide<To>>(
            static_cast<To>(static_cast<kernels::accumulator_t<kernels::cast_unit_t<From, To>>>(one))));
      guarded<From> const in(part, offset);
      guarded<To> out(n, offset);
      using unit = kernels::cast_unit_t<From, To>;
      launch<kernels::cast<From, To, 32>>(kernels::pack_grid<unit, 32>(static_cast<long long>(n), 2), dim3(32),
                                          in.read(), out.data(), static_cast<long long>(n));
      emulation::check_near<To>(out.values(), expected, 0);
    }
}

template <class From, class To>
void check_add_cast() {
  for (std::size_t const n : {std::size_t{1}, std::size_t{8}, std::size_t{333}})
    for (std::size_t const offset : {0, 1}) {
      std::vector<From> const x = stored<From>(values<From>(n, 3, 100));
      std::vector<To> y = stored<To>(values<To>(n, 4));
      guarded<From> const in(widened(x), offset);
      guarded<To> out = guarded<To>::sum(widened(y), offset);
      host_memory::add(x.data(), y.data(), n);
      using unit = kernels::cast_unit_t<From, To>;
      launch<kernels::add_cast<From, To, 32>>(kernels::pack_grid<unit, 32>(static_cast<long long>(n), 2), dim3(32),
                                              in.read(), out.data(), static_cast<long long>(n));
      CHECK(out.values() == widened(y));
    }
}

}  // namespace

TEST_CASE("blocks of a dimension to the front and back, and one of them alone, are the host's") {
  for (std::size_t const offset : {0, 1}) {
    check_blocks<float, 32>(3, 10, 8, 4, offset);
    check_blocks<float, 64>(5, 4, 3, 2, offset);
    check_blocks<double, 32>(1, 17, 1, 4, offset);
    check_blocks<__nv_bfloat16, 32>(2, 12, 16, 3, offset);
    check_blocks<__nv_bfloat16, 64>(3, 7, 5, 2, offset);
    check_blocks<__half, 32>(1, 2, 3, 4, offset);  // blocks of padding alone
    check_blocks<std::int32_t, 32>(4, 6, 4, 1, offset);
  }
}
TEST_CASE("shares of a tensor to where they travel and back are the host's") {
  check_all_shares<float, float>();
  check_all_shares<double, double>();
  check_all_shares<__nv_bfloat16, float>();
  check_all_shares<__half, __half>();
  check_all_shares<float, __nv_bfloat16>();
  check_all_shares<float, double>();
}
TEST_CASE("numbers of another type are added as the host adds them") {
  check_add_cast<float, float>();
  check_add_cast<__nv_bfloat16, float>();
  check_add_cast<float, __half>();
  check_add_cast<__half, __half>();
  check_add_cast<float, double>();
  check_add_cast<double, __nv_bfloat16>();
}
TEST_CASE("casts round as the host's types do") {
  check_cast<float, __nv_bfloat16>();
  check_cast<float, __half>();
  check_cast<__nv_bfloat16, float>();
  check_cast<__half, float>();
  check_cast<double, float>();
  check_cast<float, double>();
  check_cast<__half, __nv_bfloat16>();
}
