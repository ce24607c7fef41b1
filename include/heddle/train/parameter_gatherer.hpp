// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/plan/parameter_table.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <span>

namespace heddle {

/// Brings parameters from their rest layouts to where modules read them: those of a unit just before it computes, those
/// of the next unit meanwhile. A unit's are there until the next one's turn or `release`; then their pointers are null,
/// so that a use outside of its unit stops the program instead of reading what has come to stand there.
template <class Communicator, class T>
class parameter_gatherer {
 public:
  enum class direction : bool { forward, backward };

  /// `rest` is the arena of parameters at rest; `pointers` lead to where each use's value stands, and are kept up.
  parameter_gatherer(process_groups<Communicator>& comm, parameter_table const& parameters, T const* rest,
                     std::span<T*> pointers)
      : parameters_(&parameters),
        gathering_(&parameters.gathering),
        rest_(rest),
        pointers_(pointers),
        area_(gathering_->elements),
        moving_{{{comm, most_at_once()}, {comm, most_at_once()}}} {}

  [[nodiscard]] std::size_t bytes() const { return area_.bytes(); }

  /// Begins to bring the first unit of a pass, which is the next thing that this rank computes.
  void expect(direction d) {
    if (!needed()) return;
    if (d == direction::forward)
      begin(0);
    else if (gathering_->visits() > gathering_->first_of_backward())
      begin(gathering_->visits() - 1);
  }
  /// Returns when the unit's values are there; the next unit's are under way.
  void before(direction d, std::size_t use, std::size_t copy) {
    if (needed()) {
      std::size_t const v = gathering_->visit_of(gathering_->unit_of(use), copy);
      release();
      begin(v);
      finish(v);
      if (d == direction::forward && v + 1 < gathering_->visits()) begin(v + 1);
      if (d == direction::backward && v > gathering_->first_of_backward()) begin(v - 1);
    }
  }
  /// Nothing that was brought is read any more.
  void release() {
    if (standing_ == nobody) return;
    for_each_use(standing_, [&](std::size_t k, parameter_entry const&, T*) { pointers_[k] = nullptr; });
    standing_ = nobody;
  }

 private:
  static constexpr std::size_t nobody = ~std::size_t{0};

  [[nodiscard]] bool needed() const { return gathering_->elements != 0; }
  [[nodiscard]] std::size_t most_at_once() const {
    std::size_t most = 0;
    if (needed())
      for (auto const& unit : gathering_->units) most = unit.uses > most ? unit.uses : most;
    return most;
  }

  template <class F>
  void for_each_use(std::size_t v, F f) {
    auto const& unit = gathering_->units[gathering_->unit_at(v)];
    for (std::size_t k = unit.first_use; k < unit.first_use + unit.uses; ++k) {
      auto const& e = parameters_->entry[parameters_->of_use[k]];
      if (!e.gather.empty()) f(k, e, area_.data() + gathering_->offset_at(v));
    }
  }
  void begin(std::size_t v) {
    if (under_way_[v % 2] == v) return;
    under_way_[v % 2] = v;
    std::size_t const copy = v - gathering_->visit_of(gathering_->unit_at(v), 0);
    for_each_use(v, [&](std::size_t k, parameter_entry const& e, T* unit) {
      moving_[v % 2].add(e.gather, rest_ + e.offset + copy * e.gather.from_size, unit + gathering_->value_offset[k],
                         unit + gathering_->scratch_offset[k]);
    });
    moving_[v % 2].begin();
  }
  void finish(std::size_t v) {
    moving_[v % 2].finish();
    for_each_use(
        v, [&](std::size_t k, parameter_entry const&, T* unit) { pointers_[k] = unit + gathering_->value_offset[k]; });
    under_way_[v % 2] = nobody;
    standing_ = v;
  }

  parameter_table const* parameters_;
  gathering_table const* gathering_;
  T const* rest_;
  std::span<T*> pointers_;
  typename memory_of<Communicator>::template arena<T> area_;
  std::array<std::size_t, 2> under_way_{nobody, nobody};
  std::size_t standing_ = nobody;                                     ///< the visit whose values are there
  std::array<redistributions_in_flight<Communicator, T>, 2> moving_;  ///< of even and of odd visits
};

}  // namespace heddle
