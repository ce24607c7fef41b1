// SPDX-License-Identifier: Apache-2.0
// also: nvcc
// Shows the form of a case, and proves the harness on a rule that no header has.
#include <cstddef>

template <std::size_t Extent, std::size_t Ways>
struct split {
  static_assert(Ways != 0, "split<Extent, Ways>: 'Ways' must be at least 1; leave the axis out to keep the whole");
  static_assert(Ways == 0 || Extent % Ways == 0, "split<Extent, Ways>: 'Extent' must be a multiple of 'Ways'; pad it");
  static constexpr std::size_t extent = Ways == 0 ? Extent : Extent / (Ways == 0 ? 1 : Ways);
};

#if defined(REJECT_NO_WAYS)  // expect: 'Ways' must be at least 1
constexpr std::size_t extent = split<4096, 0>::extent;
#elif defined(REJECT_ODD_EXTENT)  // expect: 'Extent' must be a multiple of 'Ways'; pad it
// shows: 4097
constexpr std::size_t extent = split<4097, 8>::extent;
#else
static_assert(split<4096, 8>::extent == 512);
#endif
