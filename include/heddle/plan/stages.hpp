// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/nn/forward_only.hpp>
#include <heddle/nn/frozen.hpp>
#include <heddle/nn/named.hpp>
#include <heddle/nn/repeat.hpp>
#include <heddle/nn/residual.hpp>
#include <heddle/nn/sequential.hpp>
#include <heddle/plan/resolved.hpp>
#include <tuple>
#include <type_traits>
#include <utility>

namespace heddle {

/// What a pipeline stage holds. Stages of one kind share their code, so nothing grows with the number of stages.
enum class stage_kind : unsigned char {
  whole,   ///< everything: no pipeline
  first,   ///< what comes before the repeated block, and the first layers
  middle,  ///< layers
  last     ///< the last layers, and what comes after them
};

namespace detail {

template <class Module>
inline constexpr bool is_repeat = false;
template <class L, class B>
inline constexpr bool is_repeat<repeat<L, B>> = true;
template <NamedModule M>
inline constexpr bool is_repeat<M> = is_repeat<typename M::named_module>;
template <class M>
inline constexpr bool is_repeat<frozen<M>> = is_repeat<M>;

/// How many repeated blocks of a module, at any depth, the rules split.
template <class Module, class R>
inline constexpr std::size_t split_repeats = 0;
template <NamedModule M, class R>
inline constexpr std::size_t split_repeats<M, R> = split_repeats<typename M::named_module, R>;
template <class M, class R>
inline constexpr std::size_t split_repeats<frozen<M>, R> = split_repeats<M, R>;
template <class M, class R>
inline constexpr std::size_t split_repeats<residual<M>, R> = split_repeats<M, R>;
template <class... Ms, class R>
inline constexpr std::size_t split_repeats<sequential<Ms...>, R> = (std::size_t{0} + ... + split_repeats<Ms, R>);
template <class L, class B, class R>
inline constexpr std::size_t split_repeats<repeat<L, B>, R> =
    split_repeats<B, R> + (place(R::mesh::value, R::rules::value, dims<L>::value) == layout{} ? 0 : 1);

template <class Module>
struct repeat_dim {
  using type = void;
};
template <class L, class B>
struct repeat_dim<repeat<L, B>> {
  using type = L;
};
template <NamedModule M>
struct repeat_dim<M> : repeat_dim<typename M::named_module> {};
template <class M>
struct repeat_dim<frozen<M>> : repeat_dim<M> {};

template <class Tuple, std::size_t From, class Indices>
struct sequential_slice;
template <class Tuple, std::size_t From, std::size_t... Index>
struct sequential_slice<Tuple, From, std::index_sequence<Index...>> {
  using type = sequential<std::tuple_element_t<From + Index, Tuple>...>;
};

/// Some modules of a chain, the first `ForwardOnly` of the chain as such.
template <std::size_t ForwardOnly, class Tuple, std::size_t From, class Indices>
struct stage_slice : sequential_slice<Tuple, From, Indices> {};
template <std::size_t ForwardOnly, class Tuple, std::size_t From, std::size_t... Index>
requires(ForwardOnly != 0) struct stage_slice<ForwardOnly, Tuple, From, std::index_sequence<Index...>> {
  using type = sequential<
      typename forward_only_if<(From + Index < ForwardOnly), std::tuple_element_t<From + Index, Tuple>>::type...>;
};

/// A model's module cut at its one top-level repeated block.
template <class Module>
struct pipeline_cut {
  using all = sequential<Module>;
  static constexpr std::size_t forward_only = 0;
  static constexpr std::size_t repeats = is_repeat<Module> ? 1 : 0;
  static constexpr std::size_t at = 0;
  static constexpr std::size_t count = 1;
  using items = std::tuple<Module>;
};
template <class... Modules>
struct pipeline_cut<sequential<Modules...>> {
  using items = std::tuple<Modules...>;
  static constexpr std::size_t count = sizeof...(Modules);
  static constexpr std::size_t forward_only = forward_only_count<items>;
  using all = typename stage_slice<forward_only, items, 0, std::make_index_sequence<count>>::type;
  static constexpr std::size_t repeats = (std::size_t{0} + ... + (is_repeat<Modules> ? 1 : 0));
  static constexpr std::size_t at = [] {
    constexpr bool is[] = {is_repeat<Modules>...};
    std::size_t i = 0;
    while (i < count && !is[i]) ++i;
    return i;
  }();
};

template <class Cut, stage_kind Kind>
struct stage_modules {
  static constexpr std::size_t from = Kind == stage_kind::middle || Kind == stage_kind::last ? Cut::at : 0;
  static constexpr std::size_t to = Kind == stage_kind::first || Kind == stage_kind::middle ? Cut::at + 1 : Cut::count;
  using type =
      typename stage_slice<Cut::forward_only, typename Cut::items, from, std::make_index_sequence<to - from>>::type;
};

/// A composition without its last module (the loss): what gives logits.
template <class Module>
struct without_last;
template <class... Modules>
struct without_last<sequential<Modules...>> {
  using type =
      typename sequential_slice<std::tuple<Modules...>, 0, std::make_index_sequence<sizeof...(Modules) - 1>>::type;
};

}  // namespace detail

/// How a model lies on the pipeline of a plan: the axis that splits its layers, the stages along it, and each stage's
/// module. The axis is whichever the rules bind to the repeated block's dimension.
template <class R>
struct stage_partition {
  using cut = detail::pipeline_cut<typename R::model::module>;
  static constexpr mesh_value mesh = R::mesh::value;

 private:
  static constexpr layout layer_layout = [] {
    if constexpr (cut::repeats == 1) {
      using layer_dim = typename detail::repeat_dim<std::tuple_element_t<cut::at, typename cut::items>>::type;
      return place(mesh, R::rules::value, dims<layer_dim>::value);
    } else {
      return layout{};
    }
  }();
  static constexpr std::size_t axes_used = [] {
    std::size_t n = 0;
    for (std::size_t a = 0; a != mesh.axes; ++a) n += layer_layout.is_split(a);
    return n;
  }();
  static_assert(
      axes_used <= 1,
      "stage_partition: 'layers' must be split by at most one axis, the pipeline; remove the other rule for it");

  // A rule that finds nothing to split would leave the stages with copies of the whole model; a block that is split
  // elsewhere than at the cut would leave them with parts of it.
  static constexpr std::size_t wanted = [] {
    std::size_t ways = 1;
    for (std::size_t r = 0; r < R::rules::value.count; ++r) {
      std::size_t const a = mesh.index_of(R::rules::value.rule[r].axis);
      if (R::rules::value.rule[r].dim == id_v<layers> && a != mesh.axes) ways *= mesh.axis[a].size;
    }
    return ways;
  }();
  static_assert(
      (wanted == 1 || axes_used != 0) &&
          detail::split_repeats<typename R::model::module, R> == (axes_used == 0 ? 0 : 1),
      "stage_partition: a model that is split into pipeline stages must have exactly one repeat<...> at its top "
      "level; make its layers one repeat, or take the pipeline axis out of the mesh");

 public:
  /// The pipeline axis, or `mesh.axes` when nothing splits the layers.
  static constexpr std::size_t axis = [] {
    std::size_t a = 0;
    while (a != mesh.axes && !layer_layout.is_split(a)) ++a;
    return a;
  }();
  static constexpr std::size_t stages = axis != mesh.axes ? mesh.axis[axis].size : 1;

  static constexpr std::size_t stage_of(coordinates const& at) { return axis != mesh.axes ? at[axis] : 0; }
  static constexpr bool is_first(stage_kind k) { return k == stage_kind::whole || k == stage_kind::first; }
  static constexpr bool is_last(stage_kind k) { return k == stage_kind::whole || k == stage_kind::last; }

  template <stage_kind Kind>
  using module = typename std::conditional_t<Kind == stage_kind::whole, std::type_identity<typename cut::all>,
                                             detail::stage_modules<cut, Kind>>::type;

 private:
  template <stage_kind Kind, bool First>
  struct placed_stage {
    using type = placed<module<Kind>, typename R::modules, typename R::tokens>;
  };
  template <stage_kind Kind>
  struct placed_stage<Kind, false> {
    using type =
        placed<module<Kind>, typename R::modules, typename placed_stage<stage_kind::first, true>::type::output>;
  };

 public:
  /// The specialised stage.
  template <stage_kind Kind>
  using stage = typename placed_stage<Kind, is_first(Kind)>::type;

  /// Random sites before this stage's first module, so that they are numbered alike under every partition.
  template <stage_kind Kind>
  static constexpr std::size_t first_site() {
    if constexpr (is_first(Kind))
      return 0;
    else
      return stage<stage_kind::first>::sites - stage<stage_kind::middle>::sites;
  }
};

}  // namespace heddle
