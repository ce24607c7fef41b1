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
  layout rest{};           ///< of the parameter between steps, and of optimizer state
  layout compute{};        ///< as the ops read it
  layout gradient{};       ///< as backward accumulates it
  layout gradient_rest{};  ///< after the reduction; the optimizer's
  std::size_t size = 0;    ///< local elements
  std::size_t offset = 0;  ///< in the stage's arenas, elements
  redistribution reduction{};
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
/// The rest layout of parameter, gradient and state is a choice beside the compute layout. Here it is the compute
/// layout.
template <class R, stage_kind Kind>
struct stage_parameters {
  using stage = typename stage_partition<R>::template stage<Kind>;
  static constexpr std::size_t use_count = stage::uses.size();

 private:
  struct table {
    std::array<parameter_entry, use_count> entry{};
    std::array<std::size_t, use_count> of_use{};
    std::size_t count = 0;
    std::size_t elements = 0;
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
      e.rest = u.compute;
      e.gradient = u.gradient;
      e.gradient_rest = e.rest;
      e.size = local_size(R::mesh::value, u.dims, u.compute);
      e.offset = t.elements;
      t.elements += slot<typename R::element>(e.size);
      e.reduction = find_redistribution(R::mesh::value, e.dims, e.gradient, e.gradient_rest);
    }
    return t;
  }
  static constexpr table built = build();
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
  /// Elements of one arena, slots included.
  static constexpr std::size_t elements = built.elements;
  /// Elements that mean something.
  static constexpr std::size_t local_elements = [] {
    std::size_t n = 0;
    for (std::size_t k = 0; k < count; ++k) n += entry[k].size;
    return n;
  }();
  /// Scratch for the largest reduction.
  static constexpr std::size_t reduction_scratch = [] {
    std::size_t n = 0;
    for (std::size_t k = 0; k < count; ++k)
      n = detail::larger(n, redistribution_scratch(R::mesh::value, entry[k].reduction));
    return n;
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
