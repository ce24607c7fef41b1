// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/detail/array_view.hpp>
#include <heddle/nn/frame.hpp>
#include <heddle/nn/parameter.hpp>
#include <heddle/optim/optimizer_concepts.hpp>
#include <heddle/plan/stages.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <utility>

namespace heddle {

/// One parameter of a stage: its uses joined, its layouts, and where it lies in the arenas.
///
/// The parameter of a repeated block stands there once for all local copies, one behind the other; a *copy* is what
/// moves from one layout to another, as its layer is needed. Of a parameter that is not repeated there is one copy.
struct parameter_entry {
  parameter_name name{};
  name_id id = 0;  ///< of the tie, or of the name: what random keys and other stages know it by
  dimension_list dims{};
  initializer init{};
  bool decays = false;
  bool stacked = false;
  bool tied = false;
  bool trainable = true;   ///< false within `frozen`: the parameter rests and is gathered, and there is nothing else
  layout rest{};           ///< of the parameter between its uses
  layout compute{};        ///< as the ops read it
  layout gradient{};       ///< as backward accumulates it
  layout gradient_rest{};  ///< of the gradient after the reduction
  layout state_rest{};     ///< of optimizer state, and of the update
  // Of one copy.
  redistribution gather{};             ///< rest -> compute, before use
  redistribution reduction{};          ///< gradient -> gradient_rest
  redistribution to_state{};           ///< rest -> state_rest, before the update
  redistribution gradient_to_state{};  ///< gradient_rest -> state_rest
  redistribution from_state{};         ///< state_rest -> rest, after it
  std::size_t copies = 1;
  std::size_t last_use = 0;      ///< whose backward is the last: the first in order of forward
  bool reduces_in_place = true;  ///< the reduced gradient takes the place of the accumulated one
  // Local elements of all copies, and where they begin in their arenas.
  std::size_t size = 0;  ///< at rest
  std::size_t offset = 0;
  std::size_t gradient_offset = 0;
  std::size_t reduced_size = 0;
  std::size_t reduced_offset = 0;
  std::size_t state_size = 0;
  std::size_t state_offset = 0;

  /// Whether the update is done where this rank's part of the parameter rests, and the parts are gathered there.
  [[nodiscard]] constexpr bool updates_in_place(mesh_value const& mesh) const {
    return gradient_to_state.empty() && stays_in_place(mesh, to_state, from_state);
  }
};

namespace detail {

/// A name as a template argument, for messages.
template <std::size_t Length>
constexpr fixed_string<Length + 1> as_fixed_string(parameter_name const& name) {
  char text[Length + 1]{};
  for (std::size_t i = 0; i != Length; ++i) text[i] = name.text[i];
  return fixed_string<Length + 1>(text);
}

/// Elements of the master's type that are updated at a time where the optimizer takes gradients of that type alone, and
/// they are of another.
inline constexpr std::size_t update_piece = 4096;
template <class R>
inline constexpr std::size_t update_piece_room = [] {
  using types = typename R::elements;
  using master = typename types::master;
  return UpdatesFrom<typename R::plan::optimizer_type, master, typename types::gradient>
             ? std::size_t{0}
             : room_for<typename types::value, master>(update_piece);
}();

constexpr bool same_dimensions(dimension_list const& a, dimension_list const& b) {
  bool same = a.rank == b.rank;
  for (std::size_t k = 0; same && k < a.rank; ++k)
    same = a.dim[k].name == b.dim[k].name && a.dim[k].size == b.dim[k].size && a.dim[k].stored == b.dim[k].stored;
  return same;
}
/// Whether a use, or another stage's copy, can be the same parameter.
template <class Other>
constexpr bool can_share(parameter_entry const& e, Other const& u) {
  return same_dimensions(e.dims, u.dims) && e.compute == u.compute && e.gradient == u.gradient && e.init == u.init &&
         e.decays == u.decays;
}

template <fixed_string Name, bool Once>
struct declared_once {
  static_assert(
      Once,
      "model: parameter 'Name' must be declared once; wrap one of the two modules in named<\"...\", ...>, or give "
      "both the same tie to share one parameter");
  static constexpr bool value = true;
};
template <fixed_string Name, bool Alike>
struct tied_alike {
  static_assert(Alike,
                "model: all uses of the tied parameter 'Name' must agree in dimensions, start and layouts; declare "
                "them alike, and let the rules place both uses alike");
  static constexpr bool value = true;
};
template <fixed_string Frozen, fixed_string Trained, bool Agree>
struct tied_trained_alike {
  static_assert(
      Agree,
      "model: a tied parameter is one parameter, and must be frozen in all its uses or in none; 'Frozen' and "
      "'Trained', named here, are uses of one: put both in frozen<...>, or neither, or give them different ties");
  static constexpr bool value = true;
};
/// The names of two uses of one parameter, of which one is frozen; empty where there are none.
struct contradiction {
  parameter_name frozen{}, trained{};
  constexpr void find(parameter_entry const& e, parameter_name const& other, bool other_is_trained) {
    if (e.trainable == other_is_trained || frozen.length != 0) return;
    frozen = e.trainable ? other : e.name;
    trained = e.trainable ? e.name : other;
  }
};

}  // namespace detail

/// A stage's parameters, in order of first use: the layout of its parameter, gradient and optimizer arenas.
///
/// Rest layouts are the plan's choice (`zero`, or a `rest_policy`); sizes, offsets and redistributions follow from
/// them.
template <class R, stage_kind Kind>
struct stage_parameters {
 private:
  /// The dimensions of one copy.
  static constexpr dimension_list copy_dims(dimension_list const& all, bool stacked) {
    dimension_list d{};
    for (std::size_t k = stacked ? 1 : 0; k < all.rank; ++k) d.append(all.dim[k]);
    return d;
  }

 public:
  using stage = typename stage_partition<R>::template stage<Kind>;
  using elements_of = typename R::elements;
  static constexpr std::size_t use_count = stage::uses.size();
  /// Gradients are reduced as soon as a unit's backward has left them, so that only one unit's stand unreduced: where
  /// the plan says so, and where a step has one micro-batch and reduced gradients are smaller.
  static constexpr bool reduces_at_once = [] {
    if constexpr (R::plan::reduction == gradient_reduction::per_micro_batch) return true;
    if constexpr (R::plan::micro_batches == 1 && detail::partitions_gradients<typename R::plan::rest_policy>)
      for (parameter_use const& u : stage::uses) {
        if (!u.trainable) continue;
        dimension_list const dims = copy_dims(u.dims, u.stacked);
        layout const rest = R::plan::rest_policy::of(R::mesh::value, dims, restrict_to(u.compute, dims)).gradient;
        if (local_size(R::mesh::value, dims, rest) < local_size(R::mesh::value, dims, restrict_to(u.gradient, dims)))
          return true;
      }
    return false;
  }();
  /// Whether modules leave their gradients in a window of one unit, from where they are taken at once: reduced, or
  /// added to those of a wider type.
  static constexpr bool windows = reduces_at_once || elements_of::widens_gradients;

 private:
  static constexpr name_id identity(parameter_use const& u) { return u.tie != 0 ? u.tie : id_of(u.name.view()); }
  /// The layout of all copies: layers lie at rest as they are computed with.
  static constexpr layout with_layers(parameter_use const& u, layout l) {
    for (std::size_t a = 0; u.stacked && a < max_axes; ++a)
      if (u.compute.is_split(a) && u.compute.axis[a].dim == u.dims.dim[0].name) l.axis[a] = u.compute.axis[a];
    return l;
  }
  /// A use as if it were the only one of its parameter. Each path is a constant expression of its own, since compilers
  /// bound the work of each; and a local one, of which nothing reaches the program.
  template <std::size_t Use>
  static constexpr parameter_entry entry_of_use() {
    constexpr redistribution nothing{.exists = true};
    constexpr mesh_value mesh = R::mesh::value;
    constexpr parameter_use use = stage::uses[Use];
    constexpr dimension_list dims = copy_dims(use.dims, use.stacked);
    constexpr layout compute = restrict_to(use.compute, dims);
    constexpr layout gradient = restrict_to(use.gradient, dims);
    constexpr rest_layouts rest = R::plan::rest_policy::of(mesh, dims, compute);
    constexpr redistribution gather = find_redistribution(mesh, dims, rest.parameter, compute);
    // What is frozen has neither gradient nor state: of those, nothing takes room and nothing moves.
    constexpr bool trains = use.trainable;
    constexpr redistribution reduction = trains ? find_redistribution(mesh, dims, gradient, rest.gradient) : nothing;
    constexpr redistribution to_state = trains ? find_redistribution(mesh, dims, rest.parameter, rest.state) : nothing;
    constexpr redistribution gradient_to_state =
        trains ? find_redistribution(mesh, dims, rest.gradient, rest.state) : nothing;
    constexpr redistribution from_state =
        trains ? find_redistribution(mesh, dims, rest.state, rest.parameter) : nothing;
    parameter_entry e{};
    e.name = use.name;
    e.id = identity(use);
    e.dims = use.dims;
    e.init = use.init;
    e.decays = use.decays;
    e.stacked = use.stacked;
    e.tied = use.tie != 0;
    e.trainable = trains;
    e.rest = with_layers(use, rest.parameter);
    e.compute = use.compute;
    e.gradient = use.gradient;
    e.gradient_rest = with_layers(use, rest.gradient);
    e.state_rest = with_layers(use, rest.state);
    e.gather = gather;
    e.reduction = reduction;
    e.to_state = to_state;
    e.gradient_to_state = gradient_to_state;
    e.from_state = from_state;
    e.copies = use.stacked ? local_extents(mesh, use.dims, use.compute)[0] : 1;
    e.last_use = Use;
    e.reduces_in_place = !trains || (!reduces_at_once && rest.gradient == cotangent(gradient));
    e.size = e.copies * gather.from_size;
    e.reduced_size = e.copies * reduction.to_size;
    e.state_size = e.copies * to_state.to_size;
    return e;
  }
  template <std::size_t... Use>
  static constexpr std::array<parameter_entry, use_count> all_entries(std::index_sequence<Use...>) {
    return {entry_of_use<Use>()...};
  }

  struct table {
    std::array<parameter_entry, use_count> entry;
    std::array<std::size_t, use_count> of_use{};
    std::size_t count = 0;
    std::size_t elements = 0, gradients = 0, reduced = 0, states = 0;
    bool paths_exist = true;
    std::size_t repeated = use_count;  ///< the first use whose name is taken
    std::size_t unlike = use_count;    ///< the first that disagrees with the parameter it is tied to
    detail::contradiction frozen{};
  };
  static constexpr table build() {
    table t{all_entries(std::make_index_sequence<use_count>{})};
    for (std::size_t k = 0; k < use_count; ++k) {
      parameter_use const& u = stage::uses[k];
      std::size_t n = 0;
      while (n < t.count && t.entry[n].id != identity(u)) ++n;
      t.of_use[k] = n;
      if (n < t.count) {
        bool const alike = detail::can_share(t.entry[n], u);
        if (u.tie == 0 && t.repeated == use_count) t.repeated = k;
        if (u.tie != 0 && !alike && t.unlike == use_count) t.unlike = k;
        if (u.tie != 0) t.frozen.find(t.entry[n], u.name, u.trainable);
        continue;
      }
      if (t.count != k) t.entry[t.count] = t.entry[k];
      parameter_entry& e = t.entry[t.count++];
      e.offset = take<typename R::element>(t.elements, e.size);
      using gradient = typename elements_of::gradient;
      e.gradient_offset = take<gradient>(t.gradients, reduces_at_once ? 0 : e.copies * e.reduction.from_size);
      e.reduced_offset = take<gradient>(t.reduced, e.reduces_in_place ? 0 : e.reduced_size);
      e.state_offset = take<typename elements_of::master>(t.states, e.state_size);
      bool const exist = e.gather.exists && e.reduction.exists && e.to_state.exists && e.gradient_to_state.exists &&
                         e.from_state.exists;
      // Where the compute layout does not divide, `legal` speaks of it, and once is enough.
      t.paths_exist = t.paths_exist && (exist || !splits_evenly(R::mesh::value, e.dims, e.compute));
    }
    return t;
  }
  template <class Element>
  static constexpr std::size_t take(std::size_t& arena, std::size_t wanted) {
    std::size_t const begin = arena;
    arena += slot<Element>(wanted);
    return begin;
  }
  /// Where the unreduced gradient of one copy of each use lies among those of its unit.
  struct unit_gradients {
    std::array<std::size_t, use_count> offset{};
    std::size_t most = 0;
  };
  static constexpr unit_gradients in_window = [] {
    unit_gradients g{};
    for (parameter_unit const& u : stage::units) {
      std::size_t size = 0;
      for (std::size_t k = u.first_use; k < u.first_use + u.uses; ++k)
        if (stage::uses[k].trainable)
          g.offset[k] = take<typename R::element>(
              size, local_size(R::mesh::value, copy_dims(stage::uses[k].dims, stage::uses[k].stacked),
                               stage::uses[k].gradient));
      g.most = detail::larger(g.most, size);
    }
    return g;
  }();
  static constexpr table built = build();
  static_assert(
      built.paths_exist,
      "plan: 'rest_policy' must give complete values in sizes that divide; return layouts without partial axes, "
      "and split a dimension that the ranks divide, or let the split pad");
  static constexpr parameter_name name_of_use(std::size_t k) {
    return k < use_count ? stage::uses[k].name : parameter_name{};
  }
  static constexpr parameter_name repeated = name_of_use(built.repeated), unlike = name_of_use(built.unlike);
  static_assert(
      detail::declared_once<detail::as_fixed_string<repeated.length>(repeated), built.repeated == use_count>::value);
  static_assert(detail::tied_alike<detail::as_fixed_string<unlike.length>(unlike), built.unlike == use_count>::value);
  static constexpr parameter_name frozen_use = built.frozen.frozen, trained_use = built.frozen.trained;
  static_assert(detail::tied_trained_alike<detail::as_fixed_string<frozen_use.length>(frozen_use),
                                           detail::as_fixed_string<trained_use.length>(trained_use),
                                           frozen_use.length == 0>::value);

 public:
  static constexpr std::size_t count = built.count;
  static constexpr detail::array_view<parameter_entry> entry = {built.entry.data(), count};
  /// Which entry each use reads.
  static constexpr std::array<std::size_t, use_count> of_use = built.of_use;
  static constexpr auto units = stage::units;
  /// Of each use, where its gradient lies while its unit's are reduced at once.
  static constexpr std::array<std::size_t, use_count> window_offset = in_window.offset;
  /// Elements of the arenas, slots included: parameters at rest, gradients in their window, those that are added up and
  /// reduced ones (where they cannot take the place of the former), one slot of optimizer state.
  static constexpr std::size_t elements = built.elements;
  static constexpr std::size_t window_elements = windows ? in_window.most : 0;
  static constexpr std::size_t gradient_elements = built.gradients;
  static constexpr std::size_t reduced_elements = built.reduced;
  static constexpr std::size_t state_elements = built.states;
  /// Scratch for the largest update that is not done where the parameter rests: one copy's part of parameter and
  /// gradient, and what its redistributions need; with master weights, a piece of the gradient as wide as they are.
  static constexpr std::size_t scratch = [] {
    using T = typename R::element;
    using gradient = typename elements_of::gradient;
    std::size_t most = 0;
    for (std::size_t n = 0; n < count; ++n) {
      auto const& e = entry[n];
      if (e.updates_in_place(R::mesh::value)) continue;
      std::size_t const parts = slot<T>(e.to_state.to_size) + room_for<T, gradient>(slot<gradient>(e.to_state.to_size));
      auto const need = [&](redistribution const& path, std::size_t size) {
        if (!path.empty()) most = detail::larger(most, parts + size);
      };
      need(e.to_state, redistribution_scratch(R::mesh::value, e.to_state));
      need(e.gradient_to_state, room_for<T, gradient>(redistribution_scratch(R::mesh::value, e.gradient_to_state)));
      need(e.from_state, redistribution_scratch(R::mesh::value, e.from_state));
    }
    return detail::update_piece_room<R> + most;
  }();

  /// Bytes of gradients, were they reduced at once, or not: what `reduce_gradients` chooses between.
  static constexpr std::size_t gradient_bytes(bool at_once) {
    using gradient = typename elements_of::gradient;
    std::size_t kept = 0;
    for (parameter_entry const& e : entry) {
      dimension_list const dims = copy_dims(e.dims, e.stacked);
      bool const in_place = restrict_to(e.gradient_rest, dims) == cotangent(restrict_to(e.gradient, dims));
      if (!at_once) kept += slot<gradient>(e.copies * e.reduction.from_size);
      if (e.trainable && (at_once || !in_place)) kept += slot<gradient>(e.reduced_size);
    }
    std::size_t const window = at_once || elements_of::widens_gradients ? in_window.most : 0;
    return window * sizeof(typename R::element) + kept * sizeof(gradient);
  }

  /// The entry with this identity, or `count`.
  static constexpr std::size_t find(name_id id) {
    std::size_t n = 0;
    while (n < count && entry[n].id != id) ++n;
    return n;
  }
};

}  // namespace heddle
