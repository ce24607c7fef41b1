// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/plan/gathered_parameters.hpp>
#include <heddle/tensor/arena.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/tensor/redistribute.hpp>

namespace heddle {

/// Brings parameters from their rest layouts to where modules read them: those of a unit just before it computes, those
/// of the next unit meanwhile. A unit's stand until the next but one arrives.
template <class R, stage_kind Kind, class Communicator>
class parameter_gatherer {
  using parameters = stage_parameters<R, Kind>;
  using gathered = gathered_parameters<R, Kind>;
  using mesh_comm = mesh_communicator<typename R::mesh, Communicator>;
  using element = typename R::element;

 public:
  static constexpr bool needed = gathered::elements != 0;
  enum class direction : bool { forward, backward };

  /// `rest` is the arena of parameters at rest; `pointers` lead to where each use's value stands, and are kept up.
  parameter_gatherer(mesh_comm& comm, element const* rest, std::array<element const*, parameters::use_count>& pointers)
      : comm_(&comm), rest_(rest), pointers_(&pointers), area_(gathered::elements) {}

  [[nodiscard]] std::size_t bytes() const { return area_.bytes(); }

  /// Begins to bring the first unit of a pass, which is the next thing that this rank computes.
  void expect(direction d) {
    if constexpr (needed) begin(d == direction::forward ? 0 : gathered::visits - 1);
  }
  /// Returns when the unit's values are there; the next unit's are under way.
  void before([[maybe_unused]] direction d, [[maybe_unused]] std::size_t use, [[maybe_unused]] std::size_t copy) {
    if constexpr (needed) {
      std::size_t const v = gathered::visit_of(gathered::unit_of(use), copy);
      begin(v);
      finish(v);
      if (d == direction::forward && v + 1 < gathered::visits) begin(v + 1);
      if (d == direction::backward && v > 0) begin(v - 1);
    }
  }

 private:
  static constexpr std::size_t nobody = ~std::size_t{0};

  template <class F>
  void for_each_use(std::size_t v, F f) {
    auto const& unit = gathered::units[gathered::unit_at(v)];
    for (std::size_t k = unit.first_use; k < unit.first_use + unit.uses; ++k) {
      auto const& e = parameters::entry[parameters::of_use[k]];
      if (!e.gather.empty()) f(k, e, area_.data() + gathered::offset_at(v));
    }
  }
  void begin(std::size_t v) {
    if (under_way_[v % 2] == v) return;
    under_way_[v % 2] = v;
    std::size_t const copy = v - gathered::visit_of(gathered::unit_at(v), 0);
    for_each_use(v, [&](std::size_t k, parameter_entry const& e, element* unit) {
      moving_[v % 2][k].begin(*comm_, e.gather, rest_ + e.offset + copy * e.gather.from_size,
                              unit + gathered::value_offset[k], unit + gathered::scratch_offset[k]);
    });
  }
  void finish(std::size_t v) {
    for_each_use(v, [&](std::size_t k, parameter_entry const&, element* unit) {
      moving_[v % 2][k].finish();
      (*pointers_)[k] = unit + gathered::value_offset[k];
    });
    under_way_[v % 2] = nobody;
  }

  mesh_comm* comm_;
  element const* rest_;
  std::array<element const*, parameters::use_count>* pointers_;
  arena<element> area_;
  std::array<std::size_t, 2> under_way_{nobody, nobody};
  std::array<std::array<redistribution_in_flight<mesh_comm, element>, needed ? parameters::use_count : 0>, 2> moving_;
};

}  // namespace heddle
