// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/tensor/process_groups.hpp>

namespace heddle {

namespace detail {
template <class Axis, class Mesh>
struct process_group_axis {
  static_assert(AxisName<Axis>, "along<Axis>: 'Axis' must be an axis name; use the tag given to axis<Name, Size>");
  static_assert(
      Mesh::template has<Axis>,
      "along<Axis>: 'Axis' must be an axis of the mesh; a process group is a mesh axis, so add the axis to the "
      "mesh or name one that it has");
  static constexpr std::size_t index = Mesh::value.index_of(id_v<Axis>);
};
}  // namespace detail

/// One rank's process groups on a mesh type, by the name of the axis. A group that the mesh does not have is a compile
/// error.
template <class MeshType, class Communicator>
class mesh_communicator : public process_groups<Communicator> {
 public:
  using mesh = MeshType;

  /// Collective over `world`, whose size must equal the mesh's.
  explicit mesh_communicator(Communicator& world) : process_groups<Communicator>(MeshType::value, world) {}

  using process_groups<Communicator>::along;
  /// The process group of this rank along `Axis`.
  template <class Axis>
  [[nodiscard]] Communicator& along() {
    return along(detail::process_group_axis<Axis, MeshType>::index);
  }
  template <class Axis>
  [[nodiscard]] std::size_t coordinate() const {
    return this->at()[detail::process_group_axis<Axis, MeshType>::index];
  }
};

}  // namespace heddle
