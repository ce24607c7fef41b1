// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <attention/layout.cuh>
#include <support/shared_pack.cuh>
#include <type_traits>

/// Tiles of attention's operands in shared memory: rows of `Width` >= HeadDim elements, `tile_stride` apart, so that
/// accesses of 16 bytes to consecutive rows meet different banks. What is not there is zero, which sums of products
/// may take along.
namespace heddle::kernels::detail {

/// HeadDim as the products of tiles take it: a multiple of 16.
template <int HeadDim, int Multiple = 16>
inline constexpr int tile_width = HeadDim + (Multiple - HeadDim % Multiple) % Multiple;

template <class Element, int Width>
inline constexpr int tile_stride = Width + pack_width<Element>;

/// What every kernel with tiles asks of its template arguments; `Needed` is the threads of a block of so many rows.
template <int HeadDim, int Rows, int Columns, int Threads, int Needed>
struct attention_block {
  static_assert(Rows > 0 && Columns > 0,
                "attention<HeadDim, Rows, Columns, Threads>: 'Rows' is 0 where no tile fits the shared memory of the "
                "device; take a smaller 'HeadDim', or a narrower type");
  static_assert(
      HeadDim > 0 && Rows % 16 == 0 && Columns % 16 == 0 && Threads == Needed && Columns <= Threads,
      "attention<HeadDim, Rows, Columns, Threads>: 'Rows' and 'Columns' must be multiples of 16, and 'Threads' "
      "go with them; take all three from `tuning`");
  static constexpr bool value = true;
};

/// Rows first..first + Rows - 1 of `from`, which has `count`, as Elements. The whole block calls.
template <class Element, int HeadDim, int Width, int Rows, int Threads, class T, class Shared>
__device__ void load_tile(head_rows<T> const& from, int first, int count, Shared const& to) {
  using source = std::remove_const_t<T>;
  constexpr int step = pack_width<source>, packs = Width / step, stride = tile_stride<Element, Width>;
  static_assert(Width % step == 0 && Width >= HeadDim);
  for (int i = static_cast<int>(threadIdx.x); i < Rows * packs; i += Threads) {
    int const row = i / packs, column = i % packs * step;
    int const real = first + row < count ? HeadDim - column : 0;
    // Nothing is read from an address that is not there, nor is one computed.
    T* const at = from.data + (real > 0 ? (first + row) * from.stride + column : 0);
    bool const whole = from.whole && real >= step;
    if constexpr (std::is_same_v<source, Element>) {
      raw_elements<Element> raw;
      if (whole) {
        HEDDLE_ALIGNED(at, 16);
        raw = *reinterpret_cast<raw_elements<Element> const*>(at);
      } else {
        for (int j = 0; j < step; ++j) raw.value[j] = j < real ? at[j] : Element(0.0F);
      }
      store_shared<Element>(to, row * stride + column, raw);
    } else {
      pack<source> const values = load_pack<source>(at, real, whole);
      for (int j = 0; j < step; j += pack_width<Element>) {
        raw_elements<Element> raw;
        for (int k = 0; k < pack_width<Element>; ++k) raw.value[k] = Element(values[j + k]);
        store_shared<Element>(to, row * stride + column + j, raw);
      }
    }
  }
}

/// The reverse, of elements that are stored as they are.
template <int HeadDim, int Width, int Rows, int Threads, class T, class Shared>
__device__ void store_tile(Shared const& from, head_rows<T> const& to, int first, int count) {
  constexpr int step = pack_width<T>, packs = Width / step, stride = tile_stride<T, Width>;
  for (int i = static_cast<int>(threadIdx.x); i < Rows * packs; i += Threads) {
    int const row = i / packs, column = i % packs * step, real = HeadDim - column;
    if (first + row >= count || real <= 0) continue;
    raw_elements<T> const raw = load_shared<T>(from, row * stride + column);
    T* const at = to.data + (first + row) * to.stride + column;
    if (to.whole && real >= step) {
      HEDDLE_ALIGNED(at, 16);
      *reinterpret_cast<raw_elements<T>*>(at) = raw;
    } else {
      for (int j = 0; j < step; ++j)
        if (j < real) at[j] = raw.value[j];
    }
  }
}

}  // namespace heddle::kernels::detail
