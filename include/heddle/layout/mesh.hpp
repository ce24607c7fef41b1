// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/layout/name.hpp>
#include <string_view>

namespace heddle {

/// The most axes a mesh can have. A layout is an array of this many entries, so that it is a small plain value.
inline constexpr std::size_t max_axes = 8;

/// A rank's position: one coordinate per axis, in mesh order.
using coordinates = std::array<std::size_t, max_axes>;

/// A mesh as the constexpr algebra sees it: an ordered list of named sizes; the last axis varies fastest.
struct mesh_value {
  struct axis_value {
    name_id name = 0;
    std::string_view text;
    std::size_t size = 1;
  };
  std::size_t axes = 0;
  std::array<axis_value, max_axes> axis{};

  [[nodiscard]] constexpr std::size_t size() const { return size_along((1U << axes) - 1U); }
  /// Ranks of a process group along the axes in `set`, a bit set.
  [[nodiscard]] constexpr std::size_t size_along(unsigned set) const {
    std::size_t ranks = 1;
    for (std::size_t a = 0; a < axes; ++a)
      if ((set >> a & 1U) != 0) ranks *= axis[a].size;
    return ranks;
  }
  /// The position of the axis called `name`, or `axes` when there is none.
  [[nodiscard]] constexpr std::size_t index_of(name_id name) const {
    std::size_t a = 0;
    while (a < axes && axis[a].name != name) ++a;
    return a;
  }
  [[nodiscard]] constexpr coordinates coordinates_of(std::size_t rank) const {
    coordinates at{};
    for (std::size_t a = axes; a-- > 0;) {
      at[a] = rank % axis[a].size;
      rank /= axis[a].size;
    }
    return at;
  }
  [[nodiscard]] constexpr std::size_t rank_of(coordinates const& at) const {
    std::size_t rank = 0;
    for (std::size_t a = 0; a < axes; ++a) rank = rank * axis[a].size + at[a];
    return rank;
  }
  /// Distance in ranks between neighbours along axis `a`: the group of a rank along `a` is
  /// {rank - coordinate·stride + k·stride : k < size}, ascending in the coordinate.
  [[nodiscard]] constexpr std::size_t stride(std::size_t a) const {
    std::size_t ranks = 1;
    for (std::size_t b = a + 1; b < axes; ++b) ranks *= axis[b].size;
    return ranks;
  }
  /// The rank of the k-th member of the process group of `rank` along axis `a`.
  [[nodiscard]] constexpr std::size_t member(std::size_t rank, std::size_t a, std::size_t k) const {
    coordinates at = coordinates_of(rank);
    at[a] = k;
    return rank_of(at);
  }
};

/// One axis of a mesh: `axis<tp, 4>`.
template <class Name, std::size_t Size>
struct axis {
  static_assert(AxisName<Name>,
                "axis<Name, Size>: 'Name' must be an axis name; derive a tag from axis_name<\"...\"> and use that");
  static_assert(Size > 0, "axis<Name, Size>: 'Size' must be at least 1; leave the axis out or give it a size");
  using name = Name;
  static constexpr std::size_t size = Size;
};

template <class Axis>
concept MeshAxis = AxisName<typename Axis::name> && Axis::size >
0;

/// A device mesh: `mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 4>>` has 16 ranks, and tensor-parallel neighbours are
/// adjacent. `mesh<>` is one rank.
template <class... Axes>
struct mesh {
  static_assert((MeshAxis<Axes> && ...), "mesh<Axes...>: each argument must be an axis<Name, Size>; wrap the name");
  static_assert(sizeof...(Axes) <= max_axes, "mesh<Axes...>: must have at most max_axes axes; merge some of them");
  static constexpr mesh_value value = {sizeof...(Axes),
                                       {{{id_v<typename Axes::name>, Axes::name::name, Axes::size}...}}};
  static constexpr std::size_t size = value.size();

  template <class Name>
  static constexpr bool has = value.index_of(id_v<Name>) < value.axes;
  /// Ranks along `Name`; 1 when the mesh has no such axis.
  template <class Name>
  static constexpr std::size_t ways = has<Name> ? (std::size_t{1} * ... *
                                                   (id_v<typename Axes::name> == id_v<Name> ? Axes::size : 1))
                                                : 1;

 private:
  static constexpr bool countable() {
    std::size_t most = std::size_t{1} << 32;
    for (std::size_t a = 0; a != value.axes; ++a)
      if ((most /= value.axis[a].size == 0 ? 1 : value.axis[a].size) == 0) return false;
    return true;
  }
  static_assert(countable(), "mesh<Axes...>: must have at most 2^32 ranks; make an axis smaller");
  static constexpr bool names_differ() {
    for (std::size_t a = 0; a != value.axes; ++a)
      if (value.index_of(value.axis[a].name) != a) return false;
    return true;
  }
  static_assert(names_differ(), "mesh<Axes...>: each axis name must appear once; multiply the sizes or rename one");
};

namespace detail {
template <class T>
inline constexpr bool is_mesh = false;
template <class... Axes>
inline constexpr bool is_mesh<mesh<Axes...>> = true;
}  // namespace detail

template <class T>
concept Mesh = detail::is_mesh<T>;

}  // namespace heddle
