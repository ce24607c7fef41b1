// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/tensor/traffic.hpp>
#include <vector>

namespace heddle {

/// Positions `first` to `last` along one axis, whose ranks send the same over it.
struct traffic_class {
  std::size_t first = 0;
  std::size_t last = 0;
  std::array<traffic_table::entry, comm::operation_count> sent{};

  [[nodiscard]] std::size_t bytes() const {
    std::size_t n = 0;
    for (auto const& e : sent) n += e.bytes;
    return n;
  }
};

/// What the ranks of some stages send, without asking each of them.
///
/// What a rank sends over an axis depends on its stage and on its position along that axis alone, where the rounding of
/// uneven chunks may give the first ranks of a group more, or less, than the others. So each operation's bytes are
/// monotone in the position: where two positions send alike, all between them do, and halving finds every class. A mesh
/// of n ranks along each of k axes takes O(k·log n) evaluations for each class, not n^k.
class traffic_classes {
 public:
  /// `traffic` gives the table of a rank. The stages are positions `first` to `last` along the axis `stage_axis`, all
  /// of one kind (`stage_axis` is `mesh.axes` where there is no pipeline).
  template <class Traffic>
  traffic_classes(mesh_value const& mesh, std::size_t stage_axis, std::size_t first, std::size_t last, Traffic traffic)
      : axes_(mesh.axes) {
    coordinates at{};
    if (stage_axis != mesh.axes) at[stage_axis] = first;
    for (std::size_t a = 0; a != mesh.axes; ++a) {
      auto const class_at = [&](std::size_t position) {
        coordinates here = at;
        here[a] = position;
        return traffic_class{position, position, traffic(here).at[a]};
      };
      traffic_class const low = class_at(a == stage_axis ? first : 0);
      traffic_class const high = class_at(a == stage_axis ? last : mesh.axis[a].size - 1);
      on_[a] = {low};
      split(on_[a], low, high, class_at);
      on_[a].back().last = high.last;
    }
  }

  /// The classes along axis `a`, by position.
  [[nodiscard]] std::vector<traffic_class> const& on(std::size_t a) const { return on_[a]; }

  /// The table of a rank that sends most, and of one that sends least: along every axis, since each counts for itself.
  [[nodiscard]] traffic_table most() const {
    return chosen([](std::size_t bytes, std::size_t best) { return bytes > best; });
  }
  [[nodiscard]] traffic_table least() const {
    return chosen([](std::size_t bytes, std::size_t best) { return bytes < best; });
  }

 private:
  template <class ClassAt>
  static void split(std::vector<traffic_class>& found, traffic_class const& low, traffic_class const& high,
                    ClassAt const& class_at) {
    if (low.sent == high.sent) return;
    if (high.first - low.first == 1) {
      found.back().last = low.first;
      found.push_back(high);
      return;
    }
    traffic_class const middle = class_at(low.first + (high.first - low.first) / 2);
    split(found, low, middle, class_at);
    split(found, middle, high, class_at);
  }
  template <class Better>
  [[nodiscard]] traffic_table chosen(Better better) const {
    traffic_table t{};
    for (std::size_t a = 0; a != axes_; ++a) {
      traffic_class const* best = on_[a].data();
      for (auto const& c : on_[a])
        if (better(c.bytes(), best->bytes())) best = &c;
      t.at[a] = best->sent;
    }
    return t;
  }

  std::size_t axes_;
  std::array<std::vector<traffic_class>, max_axes> on_{};
};

}  // namespace heddle
