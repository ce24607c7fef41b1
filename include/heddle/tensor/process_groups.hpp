// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/comm/communicator_concepts.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/layout/mesh.hpp>
#include <optional>
#include <span>
#include <string>

namespace heddle {

/// One rank's communicators on a mesh, by the position of the axis: the whole mesh, and one process group per axis.
/// `mesh_communicator` has them by name; code that reads the mesh as a value (it interprets constexpr paths and tables)
/// takes these, and so is compiled once for all meshes.
///
/// Building one is collective: every rank of `world` does it, and `world.size()` must equal the mesh's.
template <class Communicator>
class process_groups {
 public:
  using communicator = Communicator;

  /// `mesh` outlives the groups.
  process_groups(mesh_value const& mesh, Communicator& world) : mesh_(&mesh), world_(&world) {
    if (world.size() != mesh.size())
      throw error(detail::joined_text({"mesh_communicator: the mesh has ", mesh.size(), " ranks but the communicator '",
                                       world.name(), "' has ", world.size(), "; start as many ranks as the mesh has"}));
    at_ = mesh.coordinates_of(world.rank());
    for (std::size_t a = 0; a != mesh.axes; ++a) {
      coordinates base = at_;
      base[a] = 0;
      axis_[a].emplace(world.split(mesh.rank_of(base), at_[a], mesh.axis[a].text));
    }
  }

  [[nodiscard]] mesh_value const& mesh_of_ranks() const { return *mesh_; }
  [[nodiscard]] std::size_t rank() const { return world_->rank(); }
  [[nodiscard]] coordinates const& at() const { return at_; }
  [[nodiscard]] Communicator& world() { return *world_; }
  /// The process group of this rank along the axis at position `a`.
  [[nodiscard]] Communicator& along(std::size_t a) { return *axis_[a]; }
  /// All axes, as a bit set.
  [[nodiscard]] unsigned all_axes() const { return (1U << mesh_->axes) - 1U; }

  /// Reduces `data` in place over each axis of the bit set `axes` in turn.
  template <class T>
  void all_reduce(unsigned axes, std::span<T> data, comm::reduction how) {
    for (std::size_t a = 0; a != mesh_->axes; ++a)
      if ((axes >> a & 1U) != 0) along(a).all_reduce(data, how);
  }

 private:
  mesh_value const* mesh_;
  Communicator* world_;
  coordinates at_{};
  std::array<std::optional<Communicator>, max_axes> axis_;
};

}  // namespace heddle
