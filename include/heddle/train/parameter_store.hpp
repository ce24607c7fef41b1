// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstring>
#include <heddle/plan/shared_parameters.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/tensor/arena.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/tensor/random_key.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/train/gradient_reducer.hpp>
#include <heddle/train/parameter_gatherer.hpp>
#include <heddle/train/parameter_service.hpp>
#include <heddle/train/stage_interface.hpp>
#include <optional>
#include <span>

namespace heddle {

/// One rank's parameters, gradients and optimizer state, each in its rest layout, with the redistributions between rest
/// and use.
template <class R, stage_kind Kind, class Communicator>
class parameter_store final : public parameter_service {
  using partition = stage_partition<R>;
  using parameters = stage_parameters<R, Kind>;
  using gatherer = parameter_gatherer<R, Kind, Communicator>;
  using reducer = gradient_reducer<R, Kind, Communicator>;
  using optimizer_type = typename R::plan::optimizer_type;
  using backend = typename R::backend;
  using mesh_comm = mesh_communicator<typename R::mesh, Communicator>;
  static constexpr mesh_value mesh = R::mesh::value;
  static constexpr std::size_t slots = optimizer_type::slots;
  static constexpr bool at_once = parameters::reduces_at_once;

 public:
  using element = typename R::element;
  using direction = typename gatherer::direction;
  /// Whether anything is to be done between modules: else they need not ask.
  static constexpr bool serves =
      gatherer::needed || at_once || gradient_buckets<R, Kind>::count != 0 || gradient_buckets<R, Kind>::elements != 0;

  parameter_store(mesh_comm& comm, std::uint64_t seed)
      : comm_(&comm),
        value_(parameters::elements),
        gradient_(parameters::gradient_elements),
        reduced_(parameters::reduced_elements),
        state_(parameters::state_elements * slots),
        gatherer_(comm, value_.data(), value_pointer_),
        reducer_(comm, reduced_pointers()) {
    if constexpr (shared_parameters<R>::count > 0 && (Kind == stage_kind::first || Kind == stage_kind::last)) {
      std::array<std::size_t, 2> const ends = {0, partition::stages - 1};
      ends_.emplace(comm.along(partition::axis).subset(std::span<std::size_t const>(ends), "pipeline ends"));
    }
    for (std::size_t k = 0; k < parameters::use_count; ++k) {
      auto const& e = parameters::entry[parameters::of_use[k]];
      // What is gathered has no address until its unit is needed.
      value_pointer_[k] = e.gather.empty() ? value_.data() + e.offset : nullptr;
      gradient_pointer_[k] = gradient_.data() + (at_once ? parameters::window_offset[k] : e.gradient_offset);
    }
    initialise(seed);
  }
  parameter_store(parameter_store const&) = delete;
  parameter_store& operator=(parameter_store const&) = delete;

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
  [[nodiscard]] std::size_t parameter_bytes() const { return value_.bytes(); }
  [[nodiscard]] std::size_t gathered_bytes() const { return gatherer_.bytes(); }
  [[nodiscard]] std::size_t gradient_bytes() const { return gradient_.bytes() + reduced_.bytes(); }
  [[nodiscard]] std::size_t bucket_bytes() const { return reducer_.bytes(); }
  [[nodiscard]] std::size_t state_bytes() const { return state_.bytes(); }

  // What modules ask for.
  void before_forward(std::size_t use, std::size_t copy) override { gatherer_.before(direction::forward, use, copy); }
  void before_backward(std::size_t use, std::size_t copy) override {
    gatherer_.before(direction::backward, use, copy);
    if constexpr (at_once)
      for_each_use_of_unit(use, [&](std::size_t k, parameter_entry const& e) {
        std::memset(gradient_pointer_[k], 0, e.reduction.from_size * sizeof(element));
      });
  }
  void after_backward(std::size_t use, std::size_t copy) override {
    if (!reduces_now_) return;
    for_each_use_of_unit(use, [&](std::size_t k, parameter_entry const& e) {
      // An accumulated gradient is complete when the last of its uses has added to it.
      if (at_once || e.last_use == k)
        reducer_.add(parameters::of_use[k], copy, gradient_pointer_[k] + (at_once ? 0 : copy * e.reduction.from_size));
    });
  }
  [[nodiscard]] std::size_t parameter_slot(std::size_t use, std::size_t copy) const override {
    return parameters::entry[parameters::of_use[use]].gather.empty() ? copy : 0;
  }
  [[nodiscard]] std::size_t gradient_slot(std::size_t, std::size_t copy) const override { return at_once ? 0 : copy; }

  /// The next thing that this rank computes is a pass in direction `d`: its first parameters may begin to arrive.
  void expect(direction d) { gatherer_.expect(d); }

  void clear_gradients() {
    auto const clear = [](arena<element>& a) {
      if (a.size() != 0) backend::clear(a.data(), a.size());
    };
    if constexpr (!at_once) clear(gradient_);
    if constexpr (at_once) clear(reduced_);
  }
  /// Before the backward of a micro-batch; `last` is the step's last on this stage.
  void begin_backward(bool last) {
    reduces_now_ = at_once || last;
    if (reduces_now_) reducer_.begin_pass();
  }
  /// After the step's last backward: returns when all gradients are reduced.
  void finish_reduction() {
    reducer_.finish();
    for (std::size_t n = 0; n < parameters::count; ++n)
      if (ends_ && shared_parameters<R>::template is_shared<Kind>(n))
        ends_->all_reduce(std::span<element>(reduced(n), parameters::entry[n].reduced_size), comm::reduction::sum);
  }

  /// This rank's share of the squared global norm: each element is counted on one rank.
  [[nodiscard]] double squared_norm() const {
    double sum = 0;
    for (std::size_t n = 0; n < parameters::count; ++n)
      if (owns(n))
        sum += backend::sum_of_squares(static_cast<element const*>(reduced(n)), parameters::entry[n].reduced_size);
    return sum;
  }

  /// One optimizer step of every parameter, in the layout of its state. `facts.decays` is filled in here. `scratch` has
  /// room for `stage_parameters::scratch` elements.
  void update(typename optimizer_type::options const& options, update_facts facts, element* scratch) {
    for (std::size_t n = 0; n < parameters::count; ++n) {
      auto const& e = parameters::entry[n];
      facts.decays = e.decays;
      element* const rest = value_.data() + e.offset;
      if (e.to_state.empty() && e.gradient_to_state.empty() && e.from_state.empty()) {
        optimizer_type::template update<backend>(options, facts, rest, static_cast<element const*>(reduced(n)),
                                                 state(n), e.state_size);
        continue;
      }
      for (std::size_t copy = 0; copy < e.copies; ++copy) update_copy(n, copy, options, facts, scratch);
    }
  }

 private:
  template <class F>
  void for_each_use_of_unit(std::size_t use, F f) {
    for (auto const& unit : parameters::units)
      if (unit.first_use == use)
        for (std::size_t k = use; k < use + unit.uses; ++k) f(k, parameters::entry[parameters::of_use[k]]);
  }

  void update_copy(std::size_t n, std::size_t copy, typename optimizer_type::options const& options,
                   update_facts const& facts, element* scratch) {
    auto const& e = parameters::entry[n];
    std::size_t const part = slot<element>(e.to_state.to_size);
    element* const rest = value_.data() + e.offset + copy * e.gather.from_size;
    element* w = rest;
    element const* g = reduced(n) + copy * e.reduction.to_size;
    if (!e.to_state.empty()) {
      redistribute(*comm_, e.to_state, static_cast<element const*>(rest), scratch, scratch + 2 * part);
      w = scratch;
    }
    if (!e.gradient_to_state.empty()) {
      redistribute(*comm_, e.gradient_to_state, g, scratch + part, scratch + 2 * part);
      g = scratch + part;
    }
    auto s = state(n);
    for (auto& slot_pointer : s) slot_pointer += copy * e.to_state.to_size;
    optimizer_type::template update<backend>(options, facts, w, g, s, e.to_state.to_size);
    if (!e.from_state.empty())
      redistribute(*comm_, e.from_state, static_cast<element const*>(w), rest, scratch + 2 * part);
  }

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

  [[nodiscard]] element* reduced(std::size_t n) const {
    auto const& e = parameters::entry[n];
    return e.reduces_in_place ? gradient_.data() + e.gradient_offset : reduced_.data() + e.reduced_offset;
  }
  [[nodiscard]] typename reducer::pointers reduced_pointers() const {
    typename reducer::pointers all{};
    for (std::size_t n = 0; n < parameters::count; ++n) all[n] = reduced(n);
    return all;
  }
  [[nodiscard]] bool owns(std::size_t n) const {
    layout const& l = parameters::entry[n].gradient_rest;
    for (std::size_t a = 0; a != mesh.axes; ++a)
      if (a != partition::axis && !l.is_split(a) && comm_->at()[a] != 0) return false;
    return !(Kind == stage_kind::last && shared_parameters<R>::template is_shared<Kind>(n));
  }

  mesh_comm* comm_;
  arena<element> value_;
  arena<element> gradient_;
  arena<element> reduced_;
  arena<element> state_;
  std::array<element const*, parameters::use_count> value_pointer_{};
  std::array<element*, parameters::use_count> gradient_pointer_{};
  gatherer gatherer_;
  reducer reducer_;
  bool reduces_now_ = false;
  std::optional<Communicator> ends_;
};

}  // namespace heddle
