// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/layout.hpp>

namespace heddle {

/// In `layout_of`: dimension `Name` is split over `Axes`, the first the most significant.
template <class Name, class... Axes>
struct split {
  static_assert(DimName<Name>, "split<Name, Axes...>: 'Name' must be a dimension name; write the dimension first");
  static_assert(sizeof...(Axes) > 0 && (AxisName<Axes> && ...),
                "split<Name, Axes...>: 'Axes' must be axis names; name at least one axis");
};

/// In `layout_of`: the value is a pending sum over `Axes`.
template <class... Axes>
struct partial {
  static_assert(sizeof...(Axes) > 0 && (AxisName<Axes> && ...),
                "partial<Axes...>: 'Axes' must be axis names; name at least one axis, or leave partial<> out");
};

namespace detail {

template <class Axis, class Mesh>
struct axis_of_mesh {
  static_assert(
      Mesh::template has<Axis>,
      "layout_of<Mesh, Parts...>: 'Axis' must be an axis of the mesh; add it to the mesh or leave the part out");
  static constexpr std::size_t index = Mesh::value.index_of(id_v<Axis>);
};

template <class Mesh, class Part>
struct layout_part {
  static_assert(
      sizeof(Part) == 0,
      "layout_of<Mesh, Parts...>: 'Part' must be a split<Dimension, Axes...> or a partial<Axes...>; wrap it in one");
  static constexpr bool add(layout&) { return true; }
};
template <class Mesh, class Name, class... Axes>
struct layout_part<Mesh, split<Name, Axes...>> {
  static constexpr bool add(layout& l) {
    bool once = true;
    ((once = once && l.axis[axis_of_mesh<Axes, Mesh>::index].kind == placement::replicated,
      l.split(axis_of_mesh<Axes, Mesh>::index, id_v<Name>)),
     ...);
    return once;
  }
};
template <class Mesh, class... Axes>
struct layout_part<Mesh, partial<Axes...>> {
  static constexpr bool add(layout& l) {
    bool once = true;
    ((once = once && l.axis[axis_of_mesh<Axes, Mesh>::index].kind == placement::replicated,
      l.make_partial(axis_of_mesh<Axes, Mesh>::index)),
     ...);
    return once;
  }
};

}  // namespace detail

/// A layout written by hand: `layout_of<mesh, split<batch, dp>, partial<tp>>::value`. Axes that are not named are
/// replicated. Axes of size 1 may be named; they split nothing.
template <class Mesh, class... Parts>
struct layout_of {
 private:
  static_assert(detail::is_mesh<Mesh>, "layout_of<Mesh, Parts...>: 'Mesh' must be a mesh<Axes...>; write it first");
  struct built {
    layout value{};
    bool once = true;
  };
  static constexpr built build() {
    built b{};
    ((b.once = detail::layout_part<Mesh, Parts>::add(b.value) && b.once), ...);
    return b;
  }
  static_assert(
      build().once,
      "layout_of<Mesh, Parts...>: an axis must appear at most once in a layout; remove it from one of the parts");

 public:
  static constexpr layout value = build().value;
};

}  // namespace heddle
