// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstdint>
#include <type_traits>

#include "block.hpp"
#include "shared.hpp"

// The instructions that `kernels/support/mma.cuh` wraps, as meetings of a warp: its lanes bring their fragments, and
// each computes its own elements from those of the others, by the layouts that stand there.
namespace heddle::kernels {

namespace detail {

/// A half of a register.
template <class T>
float element_of(std::uint64_t word, unsigned half) {
  auto const bits = static_cast<std::uint16_t>(word >> 16 * half);
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  else
    return __half2float(std::bit_cast<__half>(bits));
}
/// Register i of those that a lane brought to an `mma`: a[0] to a[3], b0, b1.
inline std::uint64_t register_of(emulation::brought const& all, unsigned i) {
  return all[i / 2] >> 32 * (i % 2) & 0xFFFFFFFFU;
}
constexpr std::uint64_t both_of(unsigned low, unsigned high) { return low | std::uint64_t{high} << 32; }

/// What the lanes of a warp bring to an `ldmatrix`: of which array, and where in it the lane's row begins.
template <class T, class Shared>
void meet_for_rows(Shared const& from, int at, bool transposed, emulation::place const& place) {
  emulation::require_whole_packs(at, sizeof(T), place);
  emulation::block::current().meet(
      emulation::meeting::load_matrix, ~0U,
      {reinterpret_cast<std::uintptr_t>(from.array()), static_cast<std::uint64_t>(static_cast<std::int64_t>(at))},
      place, {sizeof(T), transposed ? 1 : 0});
}
/// Elements `column` of row `row` of matrix `matrix`.
template <class T, class Shared>
std::uint16_t matrix_element(Shared const& from, unsigned matrix, unsigned row, unsigned column,
                             emulation::place const& place) {
  emulation::block const& here = emulation::block::current();
  emulation::brought const& there = here.left_by(matrix * 8 + row);
  if (there[0] != reinterpret_cast<std::uintptr_t>(from.array()))
    here.fail("loads matrices at " + text_of(place) + " of another array than lane " +
              std::to_string(matrix * 8 + row));
  return std::bit_cast<std::uint16_t>(T(from[static_cast<std::int64_t>(there[1]) + column]));
}

}  // namespace detail

template <class T>
void mma(float (&c)[4], unsigned const (&a)[4], unsigned b0, unsigned b1,
         emulation::place const& place = emulation::place::here()) {
  static_assert(has_mma<T>);
  using detail::both_of;
  emulation::block& here = emulation::block::current();
  here.meet(emulation::meeting::multiply, ~0U, {both_of(a[0], a[1]), both_of(a[2], a[3]), both_of(b0, b1)}, place,
            {sizeof(T), std::is_same_v<T, __half> ? 1 : 0});
  unsigned const lane = here.rank() % emulation::warp_size, g = lane / 4, t = lane % 4;
  double sum[4] = {};
  for (unsigned k = 0; k < 16; ++k) {
    unsigned const quarter = k % 8 / 2, half = k % 2, far = k / 8;
    emulation::brought const& row = here.left_by(g * 4 + quarter);
    double const upper = detail::element_of<T>(detail::register_of(row, far * 2), half);
    double const lower = detail::element_of<T>(detail::register_of(row, far * 2 + 1), half);
    for (unsigned n = 0; n < 2; ++n) {
      emulation::brought const& column = here.left_by((2 * t + n) * 4 + quarter);
      double const b = detail::element_of<T>(detail::register_of(column, 4 + far), half);
      sum[n] += upper * b;
      sum[2 + n] += lower * b;
    }
  }
  for (unsigned i = 0; i < 4; ++i) c[i] = static_cast<float>(c[i] + sum[i]);
}

template <class T, class Shared>
void load_matrices(unsigned (&out)[4], Shared const& from, int at,
                   emulation::place const& place = emulation::place::here()) {
  detail::meet_for_rows<T>(from, at, false, place);
  unsigned const lane = emulation::block::current().rank() % emulation::warp_size, g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned const low = detail::matrix_element<T>(from, i, g, 2 * t, place);
    out[i] = low | static_cast<unsigned>(detail::matrix_element<T>(from, i, g, 2 * t + 1, place)) << 16;
  }
}
template <class T, class Shared>
void load_transposed(unsigned (&out)[4], Shared const& from, int at,
                     emulation::place const& place = emulation::place::here()) {
  detail::meet_for_rows<T>(from, at, true, place);
  unsigned const lane = emulation::block::current().rank() % emulation::warp_size, g = lane / 4, t = lane % 4;
  for (unsigned i = 0; i < 4; ++i) {
    unsigned const low = detail::matrix_element<T>(from, i, 2 * t, g, place);
    out[i] = low | static_cast<unsigned>(detail::matrix_element<T>(from, i, 2 * t + 1, g, place)) << 16;
  }
}

}  // namespace heddle::kernels
