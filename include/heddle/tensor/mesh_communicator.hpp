// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/comm/communicator_concepts.hpp>
#include <heddle/error.hpp>
#include <heddle/layout/mesh.hpp>
#include <optional>
#include <span>
#include <string>

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

/// One rank's communicators on a mesh: the whole mesh, and one process group per axis. A group that the mesh does not
/// have is a compile error.
///
/// Building one is collective: every rank of `world` does it, and `world.size()` must equal the mesh's.
template <class MeshType, class Communicator>
class mesh_communicator {
 public:
  using mesh = MeshType;
  using communicator = Communicator;

  explicit mesh_communicator(Communicator& world) : world_(&world) {
    if (world.size() != MeshType::size)
      throw error("mesh_communicator: the mesh has " + std::to_string(MeshType::size) +
                  " ranks but the communicator '" + std::string(world.name()) + "' has " +
                  std::to_string(world.size()) + "; start as many ranks as the mesh has");
    at_ = MeshType::value.coordinates_of(world.rank());
    for (std::size_t a = 0; a != MeshType::value.axes; ++a) {
      coordinates base = at_;
      base[a] = 0;
      axis_[a].emplace(world.split(MeshType::value.rank_of(base), at_[a], MeshType::value.axis[a].text));
    }
  }

  [[nodiscard]] std::size_t rank() const { return world_->rank(); }
  [[nodiscard]] coordinates const& at() const { return at_; }
  [[nodiscard]] Communicator& world() { return *world_; }

  /// The process group of this rank along `Axis`.
  template <class Axis>
  [[nodiscard]] Communicator& along() {
    return *axis_[detail::process_group_axis<Axis, MeshType>::index];
  }
  /// The same by position, for code that interprets constexpr paths.
  [[nodiscard]] Communicator& along(std::size_t a) { return *axis_[a]; }
  template <class Axis>
  [[nodiscard]] std::size_t coordinate() const {
    return at_[detail::process_group_axis<Axis, MeshType>::index];
  }

  /// Reduces `data` in place over each axis of the bit set `axes` in turn.
  template <class T>
  void all_reduce(unsigned axes, std::span<T> data, comm::reduction how) {
    for (std::size_t a = 0; a != MeshType::value.axes; ++a)
      if ((axes >> a & 1U) != 0) along(a).all_reduce(data, how);
  }

 private:
  Communicator* world_;
  coordinates at_{};
  std::array<std::optional<Communicator>, max_axes> axis_;
};

}  // namespace heddle
