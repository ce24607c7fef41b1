// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <heddle/plan/parameter_table.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/tensor/arena.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/tensor/random_key.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/train/begun_copies.hpp>
#include <heddle/train/gradient_reducer.hpp>
#include <heddle/train/parameter_gatherer.hpp>
#include <heddle/train/parameter_service.hpp>
#include <heddle/train/parameter_update.hpp>
#include <heddle/train/stage_interface.hpp>
#include <optional>
#include <span>
#include <vector>

namespace heddle {

/// One rank's parameters, gradients and optimizer state, each in its rest layout and of its type, with the
/// redistributions between rest and use. Master weights are optimizer state: they lie as it does, and parameters are
/// rounded copies of them.
template <class Communicator, class Elements, class Optimizer, class Backend>
class parameter_store final : public parameter_service {
  using T = typename Elements::value;
  using gradient_type = typename Elements::gradient;
  using master_type = typename Elements::master;
  static constexpr bool has_master = Elements::has_master;
  using gatherer = parameter_gatherer<Communicator, T>;
  using memory = typename Backend::memory;
  template <class U>
  using room = typename memory::template arena<U>;
  static constexpr std::size_t slots = Optimizer::slots;
  using updating = parameter_update<Communicator, Elements, Optimizer, Backend>;

 public:
  /// Whether an update reads its facts where the backend computes.
  static constexpr bool listed = updating::listed;
  using direction = typename gatherer::direction;

  /// `parameters` is a constant of the plan: it outlives the store, as does `scratch`, which has room for
  /// `stage_parameters::scratch` elements.
  parameter_store(process_groups<Communicator>& comm, parameter_table const& parameters, std::uint64_t seed, T* scratch)
      : comm_(&comm),
        parameters_(&parameters),
        at_once_(parameters.reduces_at_once),
        value_(parameters.elements),
        window_(parameters.window_elements),
        gradient_(parameters.gradient_elements),
        reduced_(parameters.reduced_elements),
        state_(parameters.state_elements * (slots + (has_master ? 1 : 0))),
        value_pointer_(parameters.of_use.size()),
        gradient_pointer_(parameters.of_use.size()),
        fresh_(parameters.of_use.size()),
        begun_(parameters),
        gatherer_(comm, parameters, value_.data(), value_pointer_),
        reducer_(comm, parameters, reduced_pointers()),
        update_(
            comm, parameters, [this](auto const& use) { this->for_each_at_rest(use); }, scratch) {
    if (parameters.shared.size() != 0) {
      std::array<std::size_t, 2> const ends = {0, parameters.stages - 1};
      ends_.emplace(comm.along(parameters.pipeline_axis).subset(std::span<std::size_t const>(ends), "pipeline ends"));
    }
    for (std::size_t k = 0; k < parameters.of_use.size(); ++k) {
      parameter_entry const& e = entry_of_use(k);
      // What is gathered has no address until its unit is needed.
      value_pointer_[k] = e.gather.empty() ? value_.data() + e.offset : nullptr;
      if (e.trainable) gradient_pointer_[k] = left_at(k);
      fresh_.data()[k] = windows_ && e.trainable;  // a window is left to each unit anew
    }
    initialise(seed);
  }
  parameter_store(parameter_store const&) = delete;
  parameter_store& operator=(parameter_store const&) = delete;

  /// By use, in declaration order: what frames point to.
  [[nodiscard]] T const* const* values() const { return value_pointer_.data(); }
  [[nodiscard]] T* const* gradients() const { return gradient_pointer_.data(); }
  [[nodiscard]] bool const* fresh() const { return fresh_.data(); }
  [[nodiscard]] std::optional<Communicator> const& ends() const { return ends_; }

  [[nodiscard]] parameter_view<Elements> view(std::size_t n) const {
    parameter_entry const& e = parameters_->entry[n];
    return {&e, value_.data() + e.offset, e.trainable ? reduced(n) : nullptr,
            has_master && e.trainable ? master(n) : nullptr, !parameters_->is_second_copy(n)};
  }
  [[nodiscard]] std::array<master_type*, slots> state(std::size_t n) const {
    std::array<master_type*, slots> s{};
    for (std::size_t k = 0; k < slots; ++k)
      s[k] = state_.data() + k * parameters_->state_elements + parameters_->entry[n].state_offset;
    return s;
  }
  [[nodiscard]] std::size_t parameter_bytes() const { return value_.bytes(); }
  [[nodiscard]] std::size_t gathered_bytes() const { return gatherer_.bytes(); }
  [[nodiscard]] std::size_t gradient_bytes() const { return window_.bytes() + gradient_.bytes() + reduced_.bytes(); }
  [[nodiscard]] std::size_t bucket_bytes() const { return reducer_.bytes(); }
  [[nodiscard]] std::size_t state_bytes() const { return state_.bytes(); }
  [[nodiscard]] std::size_t update_bytes() const { return update_.bytes(); }

  // What modules ask for.
  void before_forward(std::size_t use, std::size_t copy) override { gatherer_.before(direction::forward, use, copy); }
  void before_backward(std::size_t use, std::size_t copy) override {
    gatherer_.before(direction::backward, use, copy);
    if (windows_) return;
    for_each_use_of_unit(use, [&](std::size_t k, parameter_entry const& e) {
      if (!e.trainable) return;
      bool& fresh = fresh_.data()[k];
      fresh = !begun_.begin(parameters_->of_use[k], copy);
      if (!fresh || !is_used_again(use, k)) return;
      // Which of a unit's uses its backward comes to first is the unit's affair.
      Backend::clear(gradient_pointer_[k] + copy * e.reduction.from_size, e.reduction.from_size);
      fresh = false;
    });
  }
  void after_backward(std::size_t use, std::size_t copy) override {
    auto const sum_of = [&](parameter_entry const& e) {
      return gradient_.data() + e.gradient_offset + copy * e.reduction.from_size;
    };
    if (at_once_ || windows_)
      for_each_use_of_unit_reversed(use, [&](std::size_t k, parameter_entry const& e) {
        T const* const left = gradient_pointer_[k];
        if (!e.trainable) return;
        if (at_once_)
          reducer_.add(parameters_->of_use[k], copy, left);
        else
          begun_.begin(parameters_->of_use[k], copy) ? memory::add(left, sum_of(e), e.reduction.from_size)
                                                     : memory::copy(left, sum_of(e), e.reduction.from_size);
      });
    if (at_once_ || !reduces_now_) return;
    // An accumulated gradient is complete when the last of its uses has added to it: of a unit with two, only now.
    for_each_use_of_unit_reversed(use, [&](std::size_t k, parameter_entry const& e) {
      if (e.trainable && e.last_use == k)
        reducer_.add(parameters_->of_use[k], copy, static_cast<gradient_type const*>(sum_of(e)));
    });
  }
  [[nodiscard]] std::size_t parameter_slot(std::size_t use, std::size_t copy) const override {
    return entry_of_use(use).gather.empty() ? copy : 0;
  }
  [[nodiscard]] std::size_t gradient_slot(std::size_t, std::size_t copy) const override { return windows_ ? 0 : copy; }

  /// The next thing that this rank computes is a pass in direction `d`: its first parameters may begin to arrive.
  void expect(direction d) { gatherer_.expect(d); }
  /// After the last pass of a call: what was brought for it is about to change, or may be.
  void release() { gatherer_.release(); }

  /// Before the first backward of a step. All gradients begin as what comes first.
  void begin_step() {
    reducer_.begin_step();
    begun_.clear();
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
        ends_->all_reduce(std::span<gradient_type>(reduced(n), parameters_->entry[n].reduced_size),
                          comm::reduction::sum);
  }

  /// Adds this rank's share of the squared global norm to *sum, in the backend's memory: each element is counted on one
  /// rank.
  void add_squared_norm(double* sum) const {
    for (std::size_t n = 0; n < parameters_->entry.size(); ++n)
      if (parameters_->entry[n].trainable && owns(n))
        Backend::add_sum_of_squares(static_cast<gradient_type const*>(reduced(n)), parameters_->entry[n].reduced_size,
                                    sum);
  }

  /// The optimizer's step of every parameter that is trained.
  [[nodiscard]] updating& update() { return update_; }

  /// Master weights become the parameters' values, widened. `scratch` as for the making.
  void take_values(T* scratch) {
    for (std::size_t n = 0; has_master && n < parameters_->entry.size(); ++n) {
      auto const& e = parameters_->entry[n];
      for (std::size_t copy = 0; e.trainable && copy < e.copies; ++copy) {
        T const* from = value_.data() + e.offset + copy * e.gather.from_size;
        if (e.updates_in_place(comm_->mesh_of_ranks())) {
          from += comm_->along(e.to_state.step[0].axis).rank() * e.to_state.to_size;
        } else if (!e.to_state.empty()) {
          T* const mine = scratch + parameters_->update_piece;
          redistribute(*comm_, e.to_state, from, mine, mine + slot<T>(e.to_state.to_size));
          from = mine;
        }
        memory::copy(from, master(n) + copy * e.to_state.to_size, e.to_state.to_size);
      }
    }
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

  /// In the order in which gradients go into buckets: against that of declaration, as units do.
  template <class F>
  void for_each_use_of_unit_reversed(std::size_t use, F f) {
    for (auto const& unit : parameters_->units)
      if (unit.first_use == use)
        for (std::size_t k = use + unit.uses; k-- > use;) f(k, entry_of_use(k));
  }

  /// Whether another use of the unit that begins with `use`, after use k, has the parameter of use k.
  [[nodiscard]] bool is_used_again(std::size_t use, std::size_t k) const {
    for (auto const& unit : parameters_->units)
      if (unit.first_use == use)
        for (std::size_t j = k + 1; j < use + unit.uses; ++j)
          if (parameters_->of_use[j] == parameters_->of_use[k]) return true;
    return false;
  }

  /// `use` of each parameter that is trained, where it rests.
  template <class Use>
  void for_each_at_rest(Use const& use) const {
    for (std::size_t n = 0; n < parameters_->entry.size(); ++n)
      if (parameter_entry const& e = parameters_->entry[n]; e.trainable)
        use(typename updating::resting{&e, value_.data() + e.offset, reduced(n), master(n), state(n)});
  }

  void initialise(std::uint64_t seed) {
    for (std::size_t n = 0; n < parameters_->entry.size(); ++n) {
      auto const& e = parameters_->entry[n];
      T* const w = value_.data() + e.offset;
      begin_as(e, w, e.rest, seed);
      if constexpr (has_master)
        if (e.trainable) begin_as(e, master(n), e.state_rest, seed);
    }
  }
  /// Numbers of a narrow type are those of a wide one, rounded.
  template <class U>
  void begin_as(parameter_entry const& e, U* w, layout const& l, std::uint64_t seed) {
    index_map const map = local_index_map(comm_->mesh_of_ranks(), e.dims, l, comm_->at());
    switch (e.init.kind) {
      case initializer::kind_type::zeros:
        break;
      case initializer::kind_type::ones:
        Backend::fill_real(U(1), w, map);
        break;
      case initializer::kind_type::normal:
        Backend::fill_normal(w, map, random_key{seed, 0, e.id}, 0.0, e.init.stddev);
        break;
    }
  }

  /// Where modules leave the gradient of use k, or of its first copy.
  [[nodiscard]] T* left_at(std::size_t k) const {
    if constexpr (!Elements::widens_gradients)
      if (!at_once_) return gradient_.data() + entry_of_use(k).gradient_offset;
    return window_.data() + parameters_->window_offset[k];
  }
  /// The last slot of the state, where there are masters.
  [[nodiscard]] master_type* master(std::size_t n) const {
    return has_master ? state_.data() + slots * parameters_->state_elements + parameters_->entry[n].state_offset
                      : nullptr;
  }
  [[nodiscard]] gradient_type* reduced(std::size_t n) const {
    auto const& e = parameters_->entry[n];
    return e.reduces_in_place ? gradient_.data() + e.gradient_offset : reduced_.data() + e.reduced_offset;
  }
  [[nodiscard]] std::vector<gradient_type*> reduced_pointers() const {
    std::vector<gradient_type*> all(parameters_->entry.size());
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
  bool windows_ = at_once_ || Elements::widens_gradients;
  room<T> value_;
  room<T> window_;
  room<gradient_type> gradient_;
  room<gradient_type> reduced_;
  room<master_type> state_;
  std::vector<T*> value_pointer_;
  std::vector<T*> gradient_pointer_;
  arena<bool> fresh_;   ///< of each use: what stands in its gradient counts for nothing
  begun_copies begun_;  ///< whose gradient of this step stands in `gradient_`
  gatherer gatherer_;
  gradient_reducer<Communicator, Elements> reducer_;
  updating update_;
  bool reduces_now_ = false;
  std::optional<Communicator> ends_;
};

}  // namespace heddle
