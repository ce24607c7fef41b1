// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/nn/frame.hpp>
#include <heddle/nn/parameter.hpp>
#include <heddle/plan/stages.hpp>

namespace heddle {

/// One parameter of a stage: its uses joined, its layouts, and where it lies in the arenas.
struct parameter_entry {
  parameter_name name{};
  name_id id = 0;  ///< of the tie, or of the name: what random keys and other stages know it by
  dimension_list dims{};
  initializer init{};
  bool decays = false;
  bool stacked = false;
  bool tied = false;
  layout rest{};                       ///< of the parameter between its uses
  layout compute{};                    ///< as the ops read it
  layout gradient{};                   ///< as backward accumulates it
  layout gradient_rest{};              ///< of the gradient after the reduction
  layout state_rest{};                 ///< of optimizer state, and of the update
  redistribution gather{};             ///< rest -> compute, before use
  redistribution reduction{};          ///< gradient -> gradient_rest, once a step
  redistribution to_state{};           ///< rest -> state_rest, before the update
  redistribution gradient_to_state{};  ///< gradient_rest -> state_rest
  redistribution from_state{};         ///< state_rest -> rest, after it
  bool reduces_in_place = true;
  // Local elements, and where they begin in their arenas.
  std::size_t size = 0;  ///< at rest
  std::size_t offset = 0;
  std::size_t gathered_offset = 0;
  std::size_t gradient_offset = 0;
  std::size_t reduced_offset = 0;
  std::size_t state_size = 0;
  std::size_t state_offset = 0;
};

namespace detail {

/// A name as a template argument, for messages.
template <std::size_t Length>
constexpr fixed_string<Length + 1> as_fixed_string(parameter_name const& name) {
  char text[Length + 1]{};
  for (std::size_t i = 0; i != Length; ++i) text[i] = name.text[i];
  return fixed_string<Length + 1>(text);
}

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

}  // namespace detail

/// A stage's parameters, in order of first use: the layout of its parameter, gradient and optimizer arenas.
///
/// Rest layouts are the plan's choice (`rest_policy`); sizes, offsets and redistributions follow from them.
template <class R, stage_kind Kind>
struct stage_parameters {
  using stage = typename stage_partition<R>::template stage<Kind>;
  static constexpr std::size_t use_count = stage::uses.size();

 private:
  struct table {
    std::array<parameter_entry, use_count> entry{};
    std::array<std::size_t, use_count> of_use{};
    std::size_t count = 0;
    std::size_t elements = 0, gathered = 0, gradients = 0, reduced = 0, states = 0;
    bool paths_exist = true;
    std::size_t repeated = use_count;  ///< the first use whose name is taken
    std::size_t unlike = use_count;    ///< the first that disagrees with the parameter it is tied to
  };
  static constexpr name_id identity(parameter_use const& u) { return u.tie != 0 ? u.tie : id_of(u.name.view()); }
  static constexpr table build() {
    table t{};
    for (std::size_t k = 0; k < use_count; ++k) {
      parameter_use const& u = stage::uses[k];
      std::size_t n = 0;
      while (n < t.count && t.entry[n].id != identity(u)) ++n;
      t.of_use[k] = n;
      if (n < t.count) {
        bool const alike = detail::can_share(t.entry[n], u);
        if (u.tie == 0 && t.repeated == use_count) t.repeated = k;
        if (u.tie != 0 && !alike && t.unlike == use_count) t.unlike = k;
        continue;
      }
      parameter_entry& e = t.entry[t.count++];
      e.name = u.name;
      e.id = identity(u);
      e.dims = u.dims;
      e.init = u.init;
      e.decays = u.decays;
      e.stacked = u.stacked;
      e.tied = u.tie != 0;
      e.compute = u.compute;
      e.gradient = u.gradient;
      rest_layouts const rest = R::plan::rest_policy::of(R::mesh::value, u.dims, u.compute);
      e.rest = rest.parameter;
      e.gradient_rest = rest.gradient;
      e.state_rest = rest.state;
      t.paths_exist = lay_out(e, t) && t.paths_exist;
    }
    return t;
  }
  static constexpr bool lay_out(parameter_entry& e, table& t) {
    constexpr mesh_value mesh = R::mesh::value;
    e.gather = find_redistribution(mesh, e.dims, e.rest, e.compute);
    e.reduction = find_redistribution(mesh, e.dims, e.gradient, e.gradient_rest);
    e.to_state = find_redistribution(mesh, e.dims, e.rest, e.state_rest);
    e.gradient_to_state = find_redistribution(mesh, e.dims, e.gradient_rest, e.state_rest);
    e.from_state = find_redistribution(mesh, e.dims, e.state_rest, e.rest);
    e.reduces_in_place = e.reduction.from_size == e.reduction.to_size;
    e.size = e.gather.from_size;
    e.state_size = e.to_state.to_size;
    e.offset = take(t.elements, e.size);
    e.gathered_offset = take(t.gathered, e.gather.empty() ? 0 : e.gather.to_size);
    e.gradient_offset = take(t.gradients, e.reduction.from_size);
    e.reduced_offset = take(t.reduced, e.reduces_in_place ? 0 : e.reduction.to_size);
    e.state_offset = take(t.states, e.state_size);
    bool const exist =
        e.gather.exists && e.reduction.exists && e.to_state.exists && e.gradient_to_state.exists && e.from_state.exists;
    return exist || !divides(e);
  }
  /// Where the compute layout itself does not divide, `legal` says so, and once is enough.
  static constexpr bool divides(parameter_entry const& e) {
    for (std::size_t k = 0; k < e.dims.rank; ++k)
      if (e.dims.dim[k].stored % ways_of(R::mesh::value, e.compute, e.dims.dim[k].name) != 0) return false;
    return true;
  }
  static constexpr std::size_t take(std::size_t& arena, std::size_t wanted) {
    std::size_t const begin = arena;
    arena += slot<typename R::element>(wanted);
    return begin;
  }
  static constexpr table built = build();
  static_assert(
      built.paths_exist,
      "plan: 'rest_policy' must give complete values in sizes that divide; return layouts without partial axes, "
      "and split a dimension that the ranks divide");
  static constexpr parameter_name name_of_use(std::size_t k) {
    return k < use_count ? stage::uses[k].name : parameter_name{};
  }
  static constexpr parameter_name repeated = name_of_use(built.repeated), unlike = name_of_use(built.unlike);
  static_assert(
      detail::declared_once<detail::as_fixed_string<repeated.length>(repeated), built.repeated == use_count>::value);
  static_assert(detail::tied_alike<detail::as_fixed_string<unlike.length>(unlike), built.unlike == use_count>::value);

 public:
  static constexpr std::size_t count = built.count;
  static constexpr std::array<parameter_entry, use_count> entry = built.entry;
  /// Which entry each use reads.
  static constexpr std::array<std::size_t, use_count> of_use = built.of_use;
  /// Elements of the arenas, slots included: parameters at rest, gathered copies, accumulated and reduced gradients
  /// (where they cannot share a place), one slot of optimizer state.
  static constexpr std::size_t elements = built.elements;
  static constexpr std::size_t gathered_elements = built.gathered;
  static constexpr std::size_t gradient_elements = built.gradients;
  static constexpr std::size_t reduced_elements = built.reduced;
  static constexpr std::size_t state_elements = built.states;
  /// Elements that mean something.
  static constexpr std::size_t local_elements = [] {
    std::size_t n = 0;
    for (std::size_t k = 0; k < count; ++k) n += entry[k].size;
    return n;
  }();
  /// Scratch for the largest gathering, reduction or update: an update that is not done where the parameter rests has
  /// its part of parameter and gradient there.
  static constexpr std::size_t scratch = [] {
    std::size_t most = 0;
    for (std::size_t n = 0; n < count; ++n) {
      auto const& e = entry[n];
      std::size_t update = 0;
      for (auto const* path : {&e.to_state, &e.gradient_to_state, &e.from_state})
        if (!path->empty())
          update = detail::larger(
              update, 2 * slot<typename R::element>(e.state_size) + redistribution_scratch(R::mesh::value, *path));
      most = detail::larger(most, update);
      most = detail::larger(most, redistribution_scratch(R::mesh::value, e.gather));
      most = detail::larger(most, redistribution_scratch(R::mesh::value, e.reduction));
    }
    return most;
  }();

  /// The entry with this identity, or `count`.
  static constexpr std::size_t find(name_id id) {
    std::size_t n = 0;
    while (n < count && entry[n].id != id) ++n;
    return n;
  }
};

/// Parameters that the first and the last stage both hold (a tied embedding): replicated over those two stages only, so
/// their gradients are partial over the two. What one stage would refuse of two uses, two stages refuse too.
template <class R>
struct shared_parameters {
  using partition = stage_partition<R>;
  static constexpr bool pipelined = partition::stages > 1;

 private:
  /// Names of the first parameter that both ends declare without a tie, and of the first whose two ends disagree.
  struct faults {
    parameter_name repeated{}, unlike{};
  };
  static constexpr faults between_ends = [] {
    faults f{};
    if constexpr (pipelined) {
      using first = stage_parameters<R, stage_kind::first>;
      using last = stage_parameters<R, stage_kind::last>;
      for (std::size_t n = 0; n < first::count; ++n) {
        std::size_t const k = last::find(first::entry[n].id);
        // The layers' own parameters have the same names on every stage, and are others.
        if (k == last::count || (first::entry[n].stacked && last::entry[k].stacked)) continue;
        bool const tied = first::entry[n].tied && last::entry[k].tied;
        if (!tied && f.repeated.length == 0) f.repeated = last::entry[k].name;
        if (tied && !detail::can_share(first::entry[n], last::entry[k]) && f.unlike.length == 0)
          f.unlike = last::entry[k].name;
      }
    }
    return f;
  }();
  static constexpr parameter_name repeated = between_ends.repeated, unlike = between_ends.unlike;
  static_assert(detail::declared_once<detail::as_fixed_string<repeated.length>(repeated), repeated.length == 0>::value);
  static_assert(detail::tied_alike<detail::as_fixed_string<unlike.length>(unlike), unlike.length == 0>::value);

 public:
  /// Whether entry n of stage `Kind` has a copy on the other end of the pipeline.
  template <stage_kind Kind>
  static constexpr bool is_shared(std::size_t n) {
    if constexpr (!pipelined || Kind == stage_kind::middle || Kind == stage_kind::whole) {
      return false;
    } else {
      using mine = stage_parameters<R, Kind>;
      using other = stage_parameters<R, Kind == stage_kind::first ? stage_kind::last : stage_kind::first>;
      return !mine::entry[n].stacked && other::find(mine::entry[n].id) < other::count;
    }
  }
  static constexpr std::size_t count = [] {
    std::size_t shared = 0;
    if constexpr (pipelined)
      for (std::size_t n = 0; n < stage_parameters<R, stage_kind::first>::count; ++n)
        shared += is_shared<stage_kind::first>(n);
    return shared;
  }();
};

/// Parameters of a model in all, each counted once, padding excluded: what papers call its size.
template <class R>
constexpr std::size_t count_parameters() {
  using partition = stage_partition<R>;
  std::size_t total = 0;
  auto const add = [&](auto const& entries, std::size_t count, auto const& skip) {
    for (std::size_t n = 0; n < count; ++n)
      if (!skip(n)) total += entries[n].dims.size();
  };
  if constexpr (partition::stages == 1) {
    using p = stage_parameters<R, stage_kind::whole>;
    add(p::entry, p::count, [](std::size_t) { return false; });
  } else {
    using first = stage_parameters<R, stage_kind::first>;
    using last = stage_parameters<R, stage_kind::last>;
    add(first::entry, first::count, [](std::size_t) { return false; });
    // The stacked ones are the same layers' parameters again.
    add(last::entry, last::count, [](std::size_t n) {
      return last::entry[n].stacked || shared_parameters<R>::template is_shared<stage_kind::last>(n);
    });
  }
  return total;
}

}  // namespace heddle
