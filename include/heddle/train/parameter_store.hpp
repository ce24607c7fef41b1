// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/plan/parameter_table.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/tensor/random_key.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/train/gradient_reducer.hpp>
#include <heddle/train/parameter_gatherer.hpp>
#include <heddle/train/parameter_service.hpp>
#include <heddle/train/stage_interface.hpp>
#include <optional>
#include <span>
#include <vector>

namespace heddle {

/// One rank's parameters, gradients and optimizer state, each in its rest layout, with the redistributions between rest
/// and use.
template <class Communicator, class T, class Optimizer, class Backend>
class parameter_store final : public parameter_service {
  using gatherer = parameter_gatherer<Communicator, T>;
  using memory = typename Backend::memory;
  using room = typename memory::template arena<T>;
  static constexpr std::size_t slots = Optimizer::slots;

 public:
  using direction = typename gatherer::direction;

  /// `parameters` is a constant of the plan: it outlives the store.
  parameter_store(process_groups<Communicator>& comm, parameter_table const& parameters, std::uint64_t seed)
      : comm_(&comm),
        parameters_(&parameters),
        at_once_(parameters.reduces_at_once),
        value_(parameters.elements),
        gradient_(parameters.gradient_elements),
        reduced_(parameters.reduced_elements),
        state_(parameters.state_elements * slots),
        value_pointer_(parameters.of_use.size()),
        gradient_pointer_(parameters.of_use.size()),
        gatherer_(comm, parameters, value_.data(), value_pointer_),
        returning_(comm, copies_updated_in_place()),
        reducer_(comm, parameters, reduced_pointers()) {
    if (parameters.shared.size() != 0) {
      std::array<std::size_t, 2> const ends = {0, parameters.stages - 1};
      ends_.emplace(comm.along(parameters.pipeline_axis).subset(std::span<std::size_t const>(ends), "pipeline ends"));
    }
    for (std::size_t k = 0; k < parameters.of_use.size(); ++k) {
      parameter_entry const& e = entry_of_use(k);
      // What is gathered has no address until its unit is needed.
      value_pointer_[k] = e.gather.empty() ? value_.data() + e.offset : nullptr;
      if (e.trainable)
        gradient_pointer_[k] = gradient_.data() + (at_once_ ? parameters.window_offset[k] : e.gradient_offset);
    }
    initialise(seed);
  }
  parameter_store(parameter_store const&) = delete;
  parameter_store& operator=(parameter_store const&) = delete;

  /// By use, in declaration order: what frames point to.
  [[nodiscard]] T const* const* values() const { return value_pointer_.data(); }
  [[nodiscard]] T* const* gradients() const { return gradient_pointer_.data(); }
  [[nodiscard]] std::optional<Communicator> const& ends() const { return ends_; }

  [[nodiscard]] parameter_view<T> view(std::size_t n) const {
    parameter_entry const& e = parameters_->entry[n];
    return {&e, value_.data() + e.offset, e.trainable ? reduced(n) : nullptr, !parameters_->is_second_copy(n)};
  }
  [[nodiscard]] std::array<T*, slots> state(std::size_t n) const {
    std::array<T*, slots> s{};
    for (std::size_t k = 0; k < slots; ++k)
      s[k] = state_.data() + k * parameters_->state_elements + parameters_->entry[n].state_offset;
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
    if (at_once_)
      for_each_use_of_unit(use, [&](std::size_t k, parameter_entry const& e) {
        if (e.trainable) memory::clear(gradient_pointer_[k], e.reduction.from_size);
      });
  }
  void after_backward(std::size_t use, std::size_t copy) override {
    if (!reduces_now_) return;
    for_each_use_of_unit(use, [&](std::size_t k, parameter_entry const& e) {
      // An accumulated gradient is complete when the last of its uses has added to it.
      if (e.trainable && (at_once_ || e.last_use == k))
        reducer_.add(parameters_->of_use[k], copy,
                     gradient_pointer_[k] + (at_once_ ? 0 : copy * e.reduction.from_size));
    });
  }
  [[nodiscard]] std::size_t parameter_slot(std::size_t use, std::size_t copy) const override {
    return entry_of_use(use).gather.empty() ? copy : 0;
  }
  [[nodiscard]] std::size_t gradient_slot(std::size_t, std::size_t copy) const override { return at_once_ ? 0 : copy; }

  /// The next thing that this rank computes is a pass in direction `d`: its first parameters may begin to arrive.
  void expect(direction d) { gatherer_.expect(d); }
  /// After the last pass of a call: what was brought for it is about to change, or may be.
  void release() { gatherer_.release(); }

  /// Before the first backward of a step. Gradients that are accumulated begin as zeros; those that are reduced at once
  /// begin as what arrives first.
  void begin_step() {
    reducer_.begin_step();
    if (!at_once_ && gradient_.size() != 0) Backend::clear(gradient_.data(), gradient_.size());
  }
  /// Before the backward of a micro-batch; `last` is the step's last on this stage.
  void begin_backward(bool last) {
    reduces_now_ = at_once_ || last;
    if (reduces_now_) reducer_.begin_pass();
  }
  /// After the step's last backward: returns when all gradients are reduced.
  void finish_reduction() {
    reducer_.finish();
    for (std::size_t const n : parameters_->shared)
      if (parameters_->entry[n].trainable)
        ends_->all_reduce(std::span<T>(reduced(n), parameters_->entry[n].reduced_size), comm::reduction::sum);
  }

  /// Adds this rank's share of the squared global norm to *sum, in the backend's memory: each element is counted on one
  /// rank.
  void add_squared_norm(double* sum) const {
    for (std::size_t n = 0; n < parameters_->entry.size(); ++n)
      if (parameters_->entry[n].trainable && owns(n))
        Backend::add_sum_of_squares(static_cast<T const*>(reduced(n)), parameters_->entry[n].reduced_size, sum);
  }

  /// One optimizer step of every parameter that is trained, in the layout of its state: where it rests, if this rank's
  /// part stands there in one piece. Those parts are gathered in one call at the end. `facts.decays` is filled in here.
  /// `scratch` has room for `stage_parameters::scratch` elements.
  void update(typename Optimizer::options const& options, update_facts facts, T* scratch) {
    for (std::size_t n = 0; n < parameters_->entry.size(); ++n) {
      auto const& e = parameters_->entry[n];
      if (!e.trainable) continue;
      facts.decays = e.decays;
      T* const rest = value_.data() + e.offset;
      if (e.to_state.empty() && e.gradient_to_state.empty() && e.from_state.empty()) {
        Optimizer::template update<Backend>(options, facts, rest, static_cast<T const*>(reduced(n)), state(n),
                                            e.state_size);
        continue;
      }
      for (std::size_t copy = 0; copy < e.copies; ++copy)
        e.updates_in_place(comm_->mesh_of_ranks()) ? update_in_place(n, copy, options, facts)
                                                   : update_copy(n, copy, options, facts, scratch);
    }
    returning_.run();
  }

 private:
  [[nodiscard]] parameter_entry const& entry_of_use(std::size_t k) const {
    return parameters_->entry[parameters_->of_use[k]];
  }
  template <class F>
  void for_each_use_of_unit(std::size_t use, F f) {
    for (auto const& unit : parameters_->units)
      if (unit.first_use == use)
        for (std::size_t k = use; k < use + unit.uses; ++k) f(k, entry_of_use(k));
  }

  void update_in_place(std::size_t n, std::size_t copy, typename Optimizer::options const& options,
                       update_facts const& facts) {
    auto const& e = parameters_->entry[n];
    std::size_t const part = e.to_state.to_size;
    T* const rest = value_.data() + e.offset + copy * e.gather.from_size;
    T* const w = rest + comm_->along(e.to_state.step[0].axis).rank() * part;
    Optimizer::template update<Backend>(options, facts, w, static_cast<T const*>(reduced(n) + copy * part),
                                        state_of_copy(n, copy), part);
    returning_.add(e.from_state, w, rest, nullptr);
  }
  void update_copy(std::size_t n, std::size_t copy, typename Optimizer::options const& options,
                   update_facts const& facts, T* scratch) {
    auto const& e = parameters_->entry[n];
    std::size_t const part = slot<T>(e.to_state.to_size);
    T* const rest = value_.data() + e.offset + copy * e.gather.from_size;
    T* w = rest;
    T const* g = reduced(n) + copy * e.reduction.to_size;
    if (!e.to_state.empty()) {
      redistribute(*comm_, e.to_state, static_cast<T const*>(rest), scratch, scratch + 2 * part);
      w = scratch;
    }
    if (!e.gradient_to_state.empty()) {
      redistribute(*comm_, e.gradient_to_state, g, scratch + part, scratch + 2 * part);
      g = scratch + part;
    }
    Optimizer::template update<Backend>(options, facts, w, g, state_of_copy(n, copy), e.to_state.to_size);
    if (!e.from_state.empty()) redistribute(*comm_, e.from_state, static_cast<T const*>(w), rest, scratch + 2 * part);
  }

  [[nodiscard]] std::array<T*, slots> state_of_copy(std::size_t n, std::size_t copy) const {
    auto s = state(n);
    for (auto& slot_pointer : s) slot_pointer += copy * parameters_->entry[n].to_state.to_size;
    return s;
  }
  [[nodiscard]] std::size_t copies_updated_in_place() const {
    std::size_t copies = 0;
    for (parameter_entry const& e : parameters_->entry)
      if (e.updates_in_place(comm_->mesh_of_ranks())) copies += e.copies;
    return copies;
  }

  void initialise(std::uint64_t seed) {
    for (std::size_t n = 0; n < parameters_->entry.size(); ++n) {
      auto const& e = parameters_->entry[n];
      T* const w = value_.data() + e.offset;
      index_map const map = local_index_map(comm_->mesh_of_ranks(), e.dims, e.rest, comm_->at());
      switch (e.init.kind) {
        case initializer::kind_type::zeros:
          break;
        case initializer::kind_type::ones:
          Backend::fill_real(T(1), w, map);
          break;
        case initializer::kind_type::normal:
          Backend::fill_normal(w, map, random_key{seed, 0, e.id}, 0.0, e.init.stddev);
          break;
      }
    }
  }

  [[nodiscard]] T* reduced(std::size_t n) const {
    auto const& e = parameters_->entry[n];
    return e.reduces_in_place ? gradient_.data() + e.gradient_offset : reduced_.data() + e.reduced_offset;
  }
  [[nodiscard]] std::vector<T*> reduced_pointers() const {
    std::vector<T*> all(parameters_->entry.size());
    for (std::size_t n = 0; n < all.size(); ++n) all[n] = reduced(n);
    return all;
  }
  [[nodiscard]] bool owns(std::size_t n) const {
    layout const& l = parameters_->entry[n].gradient_rest;
    for (std::size_t a = 0; a != comm_->mesh_of_ranks().axes; ++a)
      if (a != parameters_->pipeline_axis && !l.is_split(a) && comm_->at()[a] != 0) return false;
    return !parameters_->is_second_copy(n);
  }

  process_groups<Communicator>* comm_;
  parameter_table const* parameters_;
  bool at_once_;
  room value_;
  room gradient_;
  room reduced_;
  room state_;
  std::vector<T*> value_pointer_;
  std::vector<T*> gradient_pointer_;
  gatherer gatherer_;
  redistributions_in_flight<Communicator, T> returning_;  ///< updated parameters, to their rest layout
  gradient_reducer<Communicator, T> reducer_;
  bool reduces_now_ = false;
  std::optional<Communicator> ends_;
};

}  // namespace heddle
