// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/optim/optimizer_concepts.hpp>
#include <heddle/plan/parameter_table.hpp>
#include <heddle/plan/stage_memory.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/listed_parameter.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/tensor/step_numbers.hpp>
#include <span>
#include <type_traits>
#include <vector>

namespace heddle {

/// The optimizer's step of a rank's parameters, each in the layout of its state: where it rests, if this rank's part
/// stands there in one piece, else in scratch, from and to where it rests. Which parts these are is listed once. An
/// optimizer that updates lists is given them all, but for those in scratch, at a time (`UpdatesLists`).
template <class Communicator, class Elements, class Optimizer, class Backend>
class parameter_update {
  using T = typename Elements::value;
  using gradient_type = typename Elements::gradient;
  using master_type = typename Elements::master;
  static constexpr bool has_master = Elements::has_master;
  static constexpr std::size_t slots = Optimizer::slots;
  using memory = typename Backend::memory;
  using options = typename Optimizer::options;
  using listed_part = listed_parameter<T, master_type, gradient_type, slots>;

 public:
  /// Whether a step's facts are read where the backend computes: nothing is asked of the host before its end.
  static constexpr bool listed = detail::UpdatesLists<Optimizer, Backend, T, master_type, gradient_type>;

  /// A parameter that is trained: all its copies, where they rest; `master` is null where there are none.
  struct resting {
    parameter_entry const* entry = nullptr;
    T* value = nullptr;
    gradient_type* gradient = nullptr;
    master_type* master = nullptr;
    std::array<master_type*, slots> state{};
  };

  /// `each(use)` calls `use` with each of them; `scratch` has room for `stage_parameters::scratch` elements.
  template <class Each>
  parameter_update(process_groups<Communicator>& comm, parameter_table const& parameters, Each const& each, T* scratch)
      : comm_(&comm),
        my_value_(scratch + parameters.update_piece),
        piece_(scratch),
        parts_(parts_of(each)),
        list_(list_of_parts()),
        returning_(comm, in_place_) {}
  parameter_update(parameter_update const&) = delete;
  parameter_update& operator=(parameter_update const&) = delete;

  [[nodiscard]] std::size_t bytes() const {
    if constexpr (listed)
      return list_.bytes();
    else
      return 0;
  }

  /// Before a step begins, whose update `run(now)` will be.
  void begin_step(options const& o, double learning_rate) {
    if constexpr (listed) list_.begin_step(Optimizer::coefficients_of(o, learning_rate));
  }
  /// One optimizer step of every parameter, by numbers in the backend's memory. One that skips changes no bit of
  /// masters and state; of a part that is updated in scratch it writes the master's value once more.
  void run(step_numbers* now) requires(listed) {
    list_.prepare(now);
    each([&](std::size_t first, std::size_t last) { list_.update(first, last, now); });
  }
  /// The same by facts of the host; `decays` is filled in here.
  void run(options const& o, update_facts facts) requires(!listed) {
    each([&](std::size_t first, std::size_t last) {
      for (std::size_t k = first; k < last; ++k) {
        facts.decays = listed_[k].decays;
        update(o, facts, listed_[k]);
      }
    });
  }

 private:
  /// Where a part is updated; `rest` is its parameter's copy.
  struct part {
    parameter_entry const* entry;
    T* value;  ///< in the state's layout
    T* rest;
    gradient_type const* gradient;  ///< at rest
  };

  static bool rests_as_state(parameter_entry const& e) {
    return e.to_state.empty() && e.gradient_to_state.empty() && e.from_state.empty();
  }

  /// Those that are updated where they rest, and then the others.
  template <class Each>
  std::vector<part> parts_of(Each const& each) {
    std::vector<part> parts;
    each([&](resting const& r) {
      parameter_entry const& e = *r.entry;
      if (rests_as_state(e)) {
        parts.push_back({&e, r.value, r.value, r.gradient});
        listed_.push_back(listed_as(r, 0, r.value, r.gradient, e.state_size));
      } else if (e.updates_in_place(comm_->mesh_of_ranks())) {
        std::size_t const size = e.to_state.to_size;
        for (std::size_t copy = 0; copy < e.copies; ++copy, ++in_place_) {
          T* const rest = r.value + copy * e.gather.from_size;
          T* const mine = rest + comm_->along(e.to_state.step[0].axis).rank() * size;
          gradient_type const* const g = r.gradient + copy * size;
          parts.push_back({&e, mine, rest, g});
          listed_.push_back(listed_as(r, copy, mine, g, size));
        }
      }
    });
    where_they_rest_ = parts.size();
    each([&](resting const& r) {
      parameter_entry const& e = *r.entry;
      if (rests_as_state(e) || e.updates_in_place(comm_->mesh_of_ranks())) return;
      for (std::size_t copy = 0; copy < e.copies; ++copy) {
        T* const rest = r.value + copy * e.gather.from_size;
        T* const mine = e.to_state.empty() ? rest : my_value_;
        gradient_type const* const g = r.gradient + copy * e.reduction.to_size;
        parts.push_back({&e, mine, rest, g});
        listed_.push_back(
            listed_as(r, copy, mine, e.gradient_to_state.empty() ? g : my_gradient(e), e.to_state.to_size));
        // A step that is skipped writes none, and what lies in scratch then goes back to where the part rests.
        listed_.back().rounded = nullptr;
      }
    });
    return parts;
  }
  static listed_part listed_as(resting const& r, std::size_t copy, T* value, gradient_type const* g, std::size_t size) {
    listed_part p{nullptr, g, r.state, nullptr, size, r.entry->decays};
    if constexpr (has_master) {
      p.w = r.master + copy * size;
      p.rounded = value;
    } else {
      p.w = value;
    }
    for (auto& s : p.state) s += copy * size;
    return p;
  }
  /// The layout of `stage_parameters::scratch`.
  [[nodiscard]] gradient_type* my_gradient(parameter_entry const& e) const {
    return reinterpret_cast<gradient_type*>(my_value_ + slot<T>(e.to_state.to_size));
  }

  [[nodiscard]] auto list_of_parts() const {
    if constexpr (listed)
      return std::span<listed_part const>(listed_.data(), listed_.size());
    else
      return none{};
  }

  /// `update(first, last)` of all parts, with what goes before it and after.
  template <class Update>
  void each(Update const& update) {
    update(0, where_they_rest_);
    for (std::size_t k = where_they_rest_; k < parts_.size(); ++k) {
      part const& p = parts_[k];
      parameter_entry const& e = *p.entry;
      gradient_type* const rest_of_gradients = my_gradient(e) + slot<gradient_type>(e.to_state.to_size);
      T* const rest_of_scratch = reinterpret_cast<T*>(rest_of_gradients);
      if constexpr (!has_master)
        if (!e.to_state.empty())
          redistribute(*comm_, e.to_state, static_cast<T const*>(p.rest), p.value, rest_of_scratch);
      if (!e.gradient_to_state.empty())
        redistribute(*comm_, e.gradient_to_state, p.gradient, my_gradient(e), rest_of_gradients);
      update(k, k + 1);
      if constexpr (has_master) memory::copy(static_cast<master_type const*>(listed_[k].w), p.value, listed_[k].size);
      if (!e.from_state.empty())
        redistribute(*comm_, e.from_state, static_cast<T const*>(p.value), p.rest, rest_of_scratch);
    }
    for (std::size_t k = 0; in_place_ != 0 && k < where_they_rest_; ++k)
      if (part const& p = parts_[k]; !rests_as_state(*p.entry))
        returning_.add(p.entry->from_state, p.value, p.rest, nullptr);
    returning_.run();
  }

  void update(options const& o, update_facts const& facts, listed_part const& p) requires(!listed) {
    if constexpr (std::is_same_v<master_type, gradient_type> ||
                  detail::UpdatesFrom<Optimizer, master_type, gradient_type>) {
      Optimizer::template update<Backend>(o, facts, p.w, p.g, p.state, p.size);
    } else {
      auto* const wide = reinterpret_cast<master_type*>(piece_);
      auto state = p.state;
      for (std::size_t begin = 0; begin < p.size; begin += detail::update_piece) {
        std::size_t const size = p.size - begin < detail::update_piece ? p.size - begin : detail::update_piece;
        memory::copy(p.g + begin, wide, size);
        Optimizer::template update<Backend>(o, facts, p.w + begin, static_cast<master_type const*>(wide), state, size);
        for (auto& s : state) s += size;
      }
    }
    if (p.rounded != nullptr) memory::copy(static_cast<master_type const*>(p.w), p.rounded, p.size);
  }

  struct none {
    explicit none() = default;
  };
  template <bool Listed, class = void>
  struct list_type {
    using type = none;
  };
  template <class Unused>
  struct list_type<true, Unused> {
    using type = typename Optimizer::template list<Backend, T, master_type, gradient_type>;
  };

  process_groups<Communicator>* comm_;
  T* my_value_;                      ///< in scratch: this rank's part of a parameter, and what follows it
  T* piece_;                         ///< in scratch: a piece of a gradient, widened
  std::size_t where_they_rest_ = 0;  ///< parts that are updated there
  std::size_t in_place_ = 0;         ///< of those that are gathered there
  std::vector<listed_part> listed_;  ///< what the optimizer is given of each part
  std::vector<part> parts_;
  typename list_type<listed>::type list_;
  redistributions_in_flight<Communicator, T> returning_;  ///< updated parameters, to their rest layout
};

}  // namespace heddle
