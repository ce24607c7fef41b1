// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>
#include <heddle/backend/host/rotary.hpp>
#include <rotary/rotary.cuh>
#include <support/geometry.cuh>
#include <vector>

#include "guarded.hpp"
#include "launch.hpp"
#include "values.hpp"

namespace {

using namespace heddle;
using emulation::check_near;
using emulation::guarded;
using emulation::launch;
using emulation::values;
using emulation::wide;

template <class T, int Threads, std::size_t Batch, std::size_t Sequence, std::size_t KvHeads, std::size_t Group,
          std::size_t HeadDim>
void check_rotary() {
  CAPTURE(Threads);
  CAPTURE(HeadDim);
  using host::rotary_positions;
  std::vector<std::int64_t> positions(Sequence);
  for (std::size_t s = 0; s < Sequence; ++s) positions[s] = static_cast<std::int64_t>(s * s * 37 % 1000);
  using A = wide<T>;
  std::vector<A> cosine(Sequence * HeadDim / 2), sine(Sequence * HeadDim / 2);
  rotary_positions::rotary_table<Sequence, HeadDim>(positions.data(), 10000, cosine.data(), sine.data());
  guarded<A> const cosines(cosine), sines(sine);
  std::size_t const n = Batch * Sequence * KvHeads * (Group + 2) * HeadDim;
  std::vector<A> const x = values<T>(n, 1);
  auto const turned = [&](std::vector<A> const& in, A sign, bool in_place, std::size_t shift) {
    guarded<T> from(in, shift), to(n, shift);
    guarded<T>& out = in_place ? from : to;
    launch<kernels::rotary<T, static_cast<int>(HeadDim), Threads>>(
        kernels::row_grid(Batch * Sequence), dim3(Threads), from.read(), out.data(), cosines.read(), sines.read(), sign,
        static_cast<int>(Sequence), static_cast<int>(KvHeads), static_cast<int>(Group));
    return out.values();
  };
  std::vector<A> expected(n);
  rotary_positions::rotary<Batch, Sequence, KvHeads, Group, HeadDim>(x.data(), expected.data(), cosine.data(),
                                                                     sine.data());
  std::vector<A> const y = turned(x, 1, false, 0);
  check_near<T>(y, expected, 2);  // the host's compiler may fuse products and sums
  CHECK(turned(x, 1, true, 0) == y);
  CHECK(turned(x, 1, false, 1) == y);
  rotary_positions::rotary_backward<Batch, Sequence, KvHeads, Group, HeadDim>(x.data(), expected.data(), cosine.data(),
                                                                              sine.data());
  std::vector<A> const back = turned(x, -1, false, 0);
  check_near<T>(back, expected, 2);
  CHECK(turned(x, -1, true, 1) == back);
  // The inverse, but for what is rounded on the way.
  double const ulps = 4 * emulation::rounding<T>::epsilon / emulation::rounding<A>::epsilon;
  check_near<A>(turned(y, -1, true, 0), x, ulps);
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
TEST_CASE("rotary in bfloat16 and half turns in float by tables in float, and rounds once") {
  check_rotary<__nv_bfloat16, 32, 1, 3, 2, 1, 8>();
  check_rotary<__nv_bfloat16, 64, 2, 3, 2, 3, 10>();
  check_rotary<__half, 32, 1, 3, 2, 1, 6>();
  check_rotary<__half, 96, 1, 4, 2, 2, 64>();
}
