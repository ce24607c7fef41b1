// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <support/accumulator.cuh>

namespace heddle::kernels {

/// The elements of type T that one access of 16 bytes carries.
template <class T>
inline constexpr int pack_width = static_cast<int>(16 / sizeof(T));

/// `pack_width` consecutive elements, in the type that is computed with. A thread has the same elements whether they
/// are accessed in one or one by one, so that no sum depends on an address.
template <class T>
struct pack {
  using A = accumulator_t<T>;
  A value[pack_width<T>];
  __device__ A& operator[](int i) { return value[i]; }
  __device__ A const& operator[](int i) const { return value[i]; }
};

namespace detail {
template <class Element, int Width>
struct alignas(16) raw_pack {
  Element value[Width];
};
}  // namespace detail

/// Whether all of these addresses are multiples of 16 bytes; null is one.
template <class... Elements>
__device__ bool aligned_for_packs(Elements const*... p) {
  return ((reinterpret_cast<std::uintptr_t>(p) | ...) & 15U) == 0;
}
/// Whether every row of `width` elements, of each array of rows that begins at one of `p`, consists of packs that can
/// be accessed in one.
template <class T, class... Elements>
__device__ bool whole_packs(int width, Elements const*... p) {
  return width % pack_width<T> == 0 && aligned_for_packs(p...);
}

/// The elements at `p`, which are of type T or of that which is computed with: in accesses of 16 bytes if `whole`; else
/// the first `count`, and zeros, which sums of products may take along.
template <class T, class Element>
__device__ pack<T> load_pack(Element const* p, int count, bool whole) {
  static_assert(sizeof(Element) >= sizeof(T),
                "a pack of a narrower type would not fill its accesses: take packs of that");
  using A = accumulator_t<T>;
  constexpr int width = pack_width<T>;
  pack<T> out;
  if (whole) {
    HEDDLE_ALIGNED(p, 16);
    auto const raw = *reinterpret_cast<detail::raw_pack<Element, width> const*>(p);
    for (int j = 0; j < width; ++j) out[j] = A(raw.value[j]);
  } else {
    for (int j = 0; j < width; ++j) out[j] = j < count ? A(p[j]) : A(0);
  }
  return out;
}

/// The reverse; elements from `count` on are left alone.
template <class T, class Element>
__device__ void store_pack(Element* p, pack<T> const& in, int count, bool whole) {
  static_assert(sizeof(Element) >= sizeof(T),
                "a pack of a narrower type would not fill its accesses: take packs of that");
  constexpr int width = pack_width<T>;
  if (whole) {
    HEDDLE_ALIGNED(p, 16);
    detail::raw_pack<Element, width> raw;
    for (int j = 0; j < width; ++j) raw.value[j] = Element(in[j]);
    *reinterpret_cast<detail::raw_pack<Element, width>*>(p) = raw;
  } else {
    for (int j = 0; j < width; ++j)
      if (j < count) p[j] = Element(in[j]);
  }
}

}  // namespace heddle::kernels
