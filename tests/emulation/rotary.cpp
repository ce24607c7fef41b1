// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <heddle/backend/host/rotary.hpp>
#include <rotary/rotary.cuh>
#include <vector>

#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::check_near;
using emulation::launch;
using emulation::values;

constexpr std::size_t guard = 9;

template <class T, int Threads, std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group,
          std::size_t HeadDim>
void check_rotary() {
  CAPTURE(Threads);
  CAPTURE(HeadDim);
  using host::rotary_positions;
  std::vector<std::int64_t> positions(Sequence);
  for (std::size_t s = 0; s < Sequence; ++s) positions[s] = static_cast<std::int64_t>(s * s * 37 % 1000);
  std::vector<T> cosine(Sequence * HeadDim / 2), sine(Sequence * HeadDim / 2);
  rotary_positions::rotary_table<Sequence, HeadDim>(positions.data(), 10000, cosine.data(), sine.data());
  std::size_t const n = Batch * Sequence * KvHeads * (Group + 2) * HeadDim;
  std::vector<T> const x = values<T>(n, 1);
  auto const turned = [&](std::vector<T> const& in, T sign, bool in_place) {
    std::vector<T> from = in, to(n, T(-7));
    from.resize(n + guard, T(-7));
    to.resize(n + guard, T(-7));
    T* const out = in_place ? from.data() : to.data();
    launch("rotary", kernels::rotary<T, static_cast<int>(HeadDim), Threads>,
           dim3(static_cast<unsigned>(Batch * Sequence)), dim3(Threads), static_cast<T const*>(from.data()), out,
           cosine.data(), sine.data(), sign, static_cast<int>(Sequence), static_cast<int>(KvHeads),
           static_cast<int>(Group));
    for (std::size_t i = n; i < n + guard; ++i) CHECK(out[i] == T(-7));
    return std::vector<T>(out, out + n);
  };
  std::vector<T> expected(n);
  rotary_positions::rotary<Batch, Sequence, KvHeads, Group, HeadDim>(x.data(), expected.data(), cosine.data(),
                                                                     sine.data());
  std::vector<T> const y = turned(x, 1, false);
  check_near(y, expected, 2);  // the host's compiler may fuse products and sums
  CHECK(turned(x, 1, true) == y);
  rotary_positions::rotary_backward<Batch, Sequence, KvHeads, Group, HeadDim>(x.data(), expected.data(), cosine.data(),
                                                                              sine.data());
  std::vector<T> const back = turned(x, -1, false);
  check_near(back, expected, 2);
  CHECK(turned(x, -1, true) == back);
  check_near(turned(y, -1, true), x, 4);  // the inverse
  for (std::size_t row = 0; row < Batch * Sequence * KvHeads; ++row)
    for (std::size_t i = (row * (Group + 2) + Group + 1) * HeadDim; i < (row + 1) * (Group + 2) * HeadDim; ++i)
      CHECK(y[i] == x[i]);
}

}  // namespace

TEST_CASE("rotary and its backward: queries and keys turn, values stay, in place and not") {
  check_rotary<float, 32, 2, 5, 1, 1, 2>();
  check_rotary<double, 32, 1, 3, 3, 1, 6>();
  check_rotary<float, 64, 2, 3, 2, 3, 10>();
  check_rotary<float, 256, 1, 4, 2, 2, 64>();
  check_rotary<double, 128, 3, 2, 1, 4, 80>();
  check_rotary<float, 96, 1, 1, 4, 1, 128>();
}
TEST_CASE("rotary of bfloat16 turns in float by tables in float") {
  using narrow = __nv_bfloat16;
  std::vector<std::int64_t> const positions{3, 90, 7};
  std::vector<float> cosine(3 * 4), sine(3 * 4), expected(3 * 2 * 3 * 8);
  host::rotary_positions::rotary_table<3, 8>(positions.data(), 10000, cosine.data(), sine.data());
  std::vector<narrow> x = values<narrow>(expected.size(), 1);
  std::vector<float> const wide(x.begin(), x.end());
  host::rotary_positions::rotary<1, 3, 2, 1, 8>(wide.data(), expected.data(), cosine.data(), sine.data());
  launch("rotary", kernels::rotary<narrow, 8, 32>, dim3(3), dim3(32), static_cast<narrow const*>(x.data()), x.data(),
         cosine.data(), sine.data(), 1.0F, 3, 2, 1);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(std::fabs(float(x[i]) - expected[i]) <= 0x1p-8F * std::fabs(expected[i]) + 0x1p-22F);
}
