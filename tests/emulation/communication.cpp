// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <communication/copy_blocks.cuh>
#include <communication/join_ranks.cuh>
#include <cstdint>
#include <heddle/comm/detail/reduce_block.hpp>
#include <limits>
#include <vector>

#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using comm::reduction;
using emulation::guarded;
using emulation::launch;
using emulation::values;
using emulation::wide;

template <reduction How, class T, class A>
std::vector<wide<T>> joined(std::vector<std::vector<wide<T>>> const& of_ranks) {
  std::vector<wide<T>> out;
  for (std::size_t i = 0; i < of_ranks[0].size(); ++i) {
    A sum = static_cast<A>(of_ranks[0][i]);
    for (std::size_t r = 1; r < of_ranks.size(); ++r)
      sum = comm::detail::joined<How>(sum, static_cast<A>(of_ranks[r][i]));
    out.push_back(static_cast<wide<T>>(static_cast<T>(sum)));
  }
  return out;
}

/// Arrays that begin `offset` elements, and every odd rank's `more`, behind a multiple of 16 bytes; results apart from
/// them, and in place.
template <class T, class A, reduction How, int Threads>
void check_join(std::size_t ranks, std::size_t results, std::size_t n, std::size_t offset, std::size_t more) {
  CAPTURE(ranks);
  CAPTURE(results);
  CAPTURE(n);
  CAPTURE(offset);
  CAPTURE(more);
  std::vector<std::vector<wide<T>>> of_ranks;
  std::vector<guarded<T>> in, out, in_place;
  kernels::rank_arrays<T const> from{};
  kernels::rank_arrays<T> to{}, both{};
  for (std::size_t r = 0; r < ranks; ++r) {
    of_ranks.push_back(values<T>(n, r + 1, 100));
    if (n > 3) of_ranks.back()[3] = std::numeric_limits<wide<T>>::infinity();
    in.emplace_back(of_ranks.back(), offset + r % 2 * more);
    in_place.push_back(guarded<T>::sum(of_ranks.back(), offset + r % 2 * more));
  }
  for (std::size_t k = 0; k < results; ++k) out.emplace_back(n, offset + k % 2 * more);
  std::vector<wide<T>> const expected = joined<How, T, A>(of_ranks);
  dim3 const grid = kernels::pack_grid<T, Threads>(static_cast<long long>(n), 3);
  for (std::size_t r = 0; r < ranks; ++r) from.of[r] = in[r].read();
  for (std::size_t k = 0; k < results; ++k) to.of[k] = out[k].data();
  launch<kernels::join_ranks<T, A, How, Threads>>(grid, dim3(Threads), from, static_cast<int>(ranks), to,
                                                  static_cast<int>(results), static_cast<long long>(n));
  for (guarded<T> const& one : out) CHECK(one.values() == expected);

  for (std::size_t r = 0; r < ranks; ++r) from.of[r] = both.of[r] = in_place[r].data();
  launch<kernels::join_ranks<T, A, How, Threads>>(grid, dim3(Threads), from, static_cast<int>(ranks), both,
                                                  static_cast<int>(ranks), static_cast<long long>(n));
  for (guarded<T> const& one : in_place) CHECK(one.values() == expected);
}
template <class T, class A, reduction How>
void check_joins() {
  for (std::size_t const n : {std::size_t{1}, std::size_t{3}, std::size_t{16}, std::size_t{1031}})
    for (std::size_t const offset : {0, 1, 3})
      for (std::size_t const more : {0, 1}) {
        check_join<T, A, How, 32>(3, 1, n, offset, more);
        check_join<T, A, How, 64>(1, 2, n, offset, more);
      }
  check_join<T, A, How, 32>(8, 8, 200, 0, 0);
  check_join<T, A, How, 32>(64, 64, 20, 1, 0);
}

/// Copies of these lengths, from `offset` bytes behind a multiple of 16 to `other`.
template <int Threads>
void check_copies(std::vector<std::size_t> const& lengths, std::size_t offset, std::size_t other) {
  CAPTURE(offset);
  CAPTURE(other);
  std::vector<guarded<std::uint8_t>> in, out;
  std::vector<std::vector<std::uint8_t>> expected;
  kernels::block_copies list{};
  std::size_t longest = 0;
  for (std::size_t const length : lengths) {
    std::vector<std::uint8_t> bytes(length);
    for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + in.size() + 1);
    in.emplace_back(bytes, offset);
    out.push_back(guarded<std::uint8_t>(length, other));
    expected.push_back(bytes);
    longest = std::max(longest, length);
  }
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    list.from[k] = in[k].read();
    list.to[k] = out[k].data();
    list.bytes[k] = static_cast<long long>(lengths[k]);
  }
  auto const copies = static_cast<int>(lengths.size());
  launch<kernels::copy_blocks<Threads>>(kernels::copy_grid<Threads>(static_cast<long long>(longest), copies, 2),
                                        dim3(Threads), list);
  for (std::size_t k = 0; k < lengths.size(); ++k) CHECK(out[k].values() == expected[k]);
}

}  // namespace

TEST_CASE("elements of ranks are joined as the host joins them, in one order") {
  check_joins<float, float, reduction::sum>();
  check_joins<float, float, reduction::max>();
  check_joins<double, double, reduction::sum>();
  check_joins<double, double, reduction::min>();
  check_joins<__nv_bfloat16, float, reduction::sum>();
  check_joins<__half, float, reduction::sum>();
}
TEST_CASE("integers of ranks are joined, and sums of them wrap around") {
  for (std::size_t const offset : {0, 1}) {
    check_join<std::int32_t, std::int64_t, reduction::sum, 32>(3, 2, 100, offset, 0);
    check_join<std::uint8_t, std::uint64_t, reduction::max, 32>(3, 2, 100, offset, 1);
  }
  std::vector<std::int8_t> const large{127, -128, 100}, one{1, -1, 100};
  guarded<std::int8_t> const a(large), b(one);
  guarded<std::int8_t> out(3);
  kernels::rank_arrays<std::int8_t const> from{};
  kernels::rank_arrays<std::int8_t> to{};
  from.of[0] = a.read();
  from.of[1] = b.read();
  to.of[0] = out.data();
  launch<kernels::join_ranks<std::int8_t, std::int64_t, reduction::sum, 32>>(dim3(1), dim3(32), from, 2, to, 1, 3LL);
  CHECK(out.values() == std::vector<std::int8_t>{-128, 127, -56});
}
TEST_CASE("a NaN of any rank stays, whatever joins it") {
  float const nan = std::numeric_limits<float>::quiet_NaN();
  for (std::size_t bad = 0; bad < 3; ++bad) {
    std::vector<guarded<float>> in;
    kernels::rank_arrays<float const> from{};
    kernels::rank_arrays<float> to{};
    for (std::size_t r = 0; r < 3; ++r) in.push_back(guarded<float>(std::vector<float>(5, r == bad ? nan : 1.0F)));
    for (std::size_t r = 0; r < 3; ++r) from.of[r] = in[r].read();
    guarded<float> most(5), least(5);
    to.of[0] = most.data();
    launch<kernels::join_ranks<float, float, reduction::max, 32>>(dim3(1), dim3(32), from, 3, to, 1, 5LL);
    to.of[0] = least.data();
    launch<kernels::join_ranks<float, float, reduction::min, 32>>(dim3(1), dim3(32), from, 3, to, 1, 5LL);
    for (float const x : most.values()) CHECK(std::isnan(x));
    for (float const x : least.values()) CHECK(std::isnan(x));
  }
}
TEST_CASE("blocks are copied byte for byte, whatever their addresses") {
  for (std::size_t const offset : {0, 1, 2, 4, 15})
    for (std::size_t const other : {0, 1, 2, 4, 8, 15}) {
      check_copies<32>({0, 1, 15, 16, 17, 64, 1000, 2049}, offset, other);
      check_copies<64>({333}, offset, other);
    }
  check_copies<32>(std::vector<std::size_t>(kernels::block_copies::most, 40), 0, 3);
}
