// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/tensor/arena.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/tensor/random_key.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/train/stage_interface.hpp>
#include <optional>
#include <span>

namespace heddle {

/// One rank's parameters, gradients and optimizer state, each in its rest layout, with the redistributions between rest
/// and use. `scratch` is the stage's, with room for `stage_parameters::scratch` elements.
template <class R, stage_kind Kind, class Communicator>
class parameter_store {
  using partition = stage_partition<R>;
  using parameters = stage_parameters<R, Kind>;
  using optimizer_type = typename R::plan::optimizer_type;
  using backend = typename R::backend;
  using mesh_comm = mesh_communicator<typename R::mesh, Communicator>;
  static constexpr mesh_value mesh = R::mesh::value;
  static constexpr std::size_t slots = optimizer_type::slots;

 public:
  using element = typename R::element;

  parameter_store(mesh_comm& comm, std::uint64_t seed)
      : comm_(&comm),
        value_(parameters::elements),
        gathered_(parameters::gathered_elements),
        gradient_(parameters::gradient_elements),
        reduced_(parameters::reduced_elements),
        state_(parameters::state_elements * slots) {
    if constexpr (shared_parameters<R>::count > 0 && (Kind == stage_kind::first || Kind == stage_kind::last)) {
      std::array<std::size_t, 2> const ends = {0, partition::stages - 1};
      ends_.emplace(comm.along(partition::axis).subset(std::span<std::size_t const>(ends), "pipeline ends"));
    }
    for (std::size_t k = 0; k < parameters::use_count; ++k) {
      auto const& e = parameters::entry[parameters::of_use[k]];
      value_pointer_[k] = e.gather.empty() ? value_.data() + e.offset : gathered_.data() + e.gathered_offset;
      gradient_pointer_[k] = gradient_.data() + e.gradient_offset;
    }
    initialise(seed);
  }

  /// By use, in declaration order: what frames point to.
  [[nodiscard]] element const* const* values() const { return value_pointer_.data(); }
  [[nodiscard]] element* const* gradients() const { return gradient_pointer_.data(); }
  [[nodiscard]] std::optional<Communicator> const& ends() const { return ends_; }

  [[nodiscard]] parameter_view<element> view(std::size_t n) const {
    return {&parameters::entry[n], value_.data() + parameters::entry[n].offset, reduced(n),
            !(Kind == stage_kind::last && shared_parameters<R>::template is_shared<Kind>(n))};
  }
  [[nodiscard]] std::array<element*, slots> state(std::size_t n) const {
    std::array<element*, slots> s{};
    for (std::size_t k = 0; k < slots; ++k)
      s[k] = state_.data() + k * parameters::state_elements + parameters::entry[n].state_offset;
    return s;
  }
  [[nodiscard]] std::size_t parameter_bytes() const { return value_.bytes() + gathered_.bytes(); }
  [[nodiscard]] std::size_t gradient_bytes() const { return gradient_.bytes() + reduced_.bytes(); }
  [[nodiscard]] std::size_t state_bytes() const { return state_.bytes(); }

  /// Brings every parameter that rests otherwise into its compute layout.
  void gather(element* scratch) {
    for (std::size_t n = 0; n < parameters::count; ++n) {
      auto const& e = parameters::entry[n];
      if (!e.gather.empty())
        redistribute(*comm_, e.gather, static_cast<element const*>(value_.data() + e.offset),
                     gathered_.data() + e.gathered_offset, scratch);
    }
  }

  void clear_gradients() {
    if (gradient_.bytes() != 0) std::memset(gradient_.data(), 0, gradient_.bytes());
  }

  /// Sums the accumulated gradients over the ranks that hold parts of them, into their rest layouts.
  void reduce(element* scratch) {
    for (std::size_t n = 0; n < parameters::count; ++n) {
      auto const& e = parameters::entry[n];
      element* const to = reduced(n);
      if (!e.reduction.empty())
        redistribute(*comm_, e.reduction, static_cast<element const*>(gradient_.data() + e.gradient_offset), to,
                     scratch);
      if (ends_ && shared_parameters<R>::template is_shared<Kind>(n))
        ends_->all_reduce(std::span<element>(to, e.reduction.to_size), comm::reduction::sum);
    }
  }

  /// This rank's share of the squared global norm: each element is counted on one rank.
  [[nodiscard]] double squared_norm() const {
    double sum = 0;
    for (std::size_t n = 0; n < parameters::count; ++n)
      if (owns(n))
        sum += backend::sum_of_squares(static_cast<element const*>(reduced(n)), parameters::entry[n].reduction.to_size);
    return sum;
  }

  /// One optimizer step of every parameter, in the layout of its state. `facts.decays` is filled in here.
  void update(typename optimizer_type::options const& options, update_facts facts, element* scratch) {
    for (std::size_t n = 0; n < parameters::count; ++n) {
      auto const& e = parameters::entry[n];
      facts.decays = e.decays;
      element* w = value_.data() + e.offset;
      element const* g = reduced(n);
      std::size_t const part = slot<element>(e.state_size);
      if (!e.to_state.empty()) {
        redistribute(*comm_, e.to_state, static_cast<element const*>(w), scratch, scratch + 2 * part);
        w = scratch;
      }
      if (!e.gradient_to_state.empty()) {
        redistribute(*comm_, e.gradient_to_state, g, scratch + part, scratch + 2 * part);
        g = scratch + part;
      }
      optimizer_type::template update<backend>(options, facts, w, g, state(n), e.state_size);
      if (!e.from_state.empty())
        redistribute(*comm_, e.from_state, static_cast<element const*>(w), value_.data() + e.offset,
                     scratch + 2 * part);
    }
  }

 private:
  void initialise(std::uint64_t seed) {
    for (std::size_t n = 0; n < parameters::count; ++n) {
      auto const& e = parameters::entry[n];
      element* const w = value_.data() + e.offset;
      index_map const map = local_index_map(mesh, e.dims, e.rest, comm_->at());
      switch (e.init.kind) {
        case initializer::kind_type::zeros:
          break;
        case initializer::kind_type::ones:
          for_each_run(map, [&](std::size_t begin, std::size_t count, std::uint64_t) {
            for (std::size_t i = 0; i < count; ++i) w[begin + i] = element(1);
          });
          break;
        case initializer::kind_type::normal:
          backend::fill_normal(w, map, random_key{seed, 0, e.id}, 0.0, e.init.stddev);
          break;
      }
    }
  }

  /// A reduction that keeps the size works in place.
  [[nodiscard]] element* reduced(std::size_t n) const {
    auto const& e = parameters::entry[n];
    return e.reduces_in_place ? gradient_.data() + e.gradient_offset : reduced_.data() + e.reduced_offset;
  }
  [[nodiscard]] bool owns(std::size_t n) const {
    layout const& l = parameters::entry[n].gradient_rest;
    for (std::size_t a = 0; a != mesh.axes; ++a)
      if (a != partition::axis && !l.is_split(a) && comm_->at()[a] != 0) return false;
    return !(Kind == stage_kind::last && shared_parameters<R>::template is_shared<Kind>(n));
  }

  mesh_comm* comm_;
  arena<element> value_;
  arena<element> gathered_;
  arena<element> gradient_;
  arena<element> reduced_;
  arena<element> state_;
  std::array<element const*, parameters::use_count> value_pointer_{};
  std::array<element*, parameters::use_count> gradient_pointer_{};
  std::optional<Communicator> ends_;
};

}  // namespace heddle
