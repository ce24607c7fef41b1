// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace heddle {

/// What a step tells the optimizer about one parameter.
struct update_facts {
  std::size_t step = 1;  ///< counts from 1; one count for all parameters, whatever their gradients have been
  double learning_rate = 0;
  double gradient_scale = 1;  ///< multiplies the gradient first (the clipping factor)
  bool decays = false;        ///< whether weight decay applies to this parameter
};

/// One hyper-parameter of an optimizer, as ranks compare it.
struct option_value {
  std::string_view name;
  double value = 0;
};

namespace detail {

/// Stands for a backend where only the declaration of `update` is asked for.
struct any_backend {};

template <class O>
concept HasStateAndOptions = requires {
  { O::slots } -> std::convertible_to<std::size_t>;
  typename O::options;
};
template <class O>
concept Updates = requires(typename O::options const& options, update_facts const& facts, float* w, float const* g,
                           std::array<float*, O::slots> const& state, std::size_t n) {
  { O::template update<any_backend>(options, facts, w, g, state, n) } -> std::same_as<void>;
};
template <class O>
concept TellsOptions = requires(typename O::options const& options) {
  { O::values(options) } -> std::convertible_to<std::span<option_value const>>;
  std::tuple_size<decltype(O::values(options))>::value;
};

/// Whether the optimizer reads gradients of type `Gradient` to update weights of type `Master`.
template <class O, class Master, class Gradient>
concept UpdatesFrom = std::is_same_v<Master, Gradient> ||
    requires(typename O::options const& options, update_facts const& facts, Master* w, Gradient const* g,
             std::array<Master*, O::slots> const& state, std::size_t n) {
  O::template update<any_backend>(options, facts, w, g, state, n);
};

/// Whether the optimizer updates many parameters together on this backend, by what lies in its memory.
template <class O, class Backend, class Value, class Master, class Gradient>
concept UpdatesLists = UpdatesFrom<O, Master, Gradient> && requires(typename O::options const& options) {
  requires std::is_same_v<typename O::lists_of, O>;
  typename O::template list<Backend, Value, Master, Gradient>;
  O::coefficients_of(options, 0.0);
};

}  // namespace detail

/// An optimizer whose state is some arrays of the parameter's own shape.
///
/// **Minimal complete definition.**
///   `slots`                          how many state arrays
///   `options`                        an aggregate of hyper-parameters with defaults
///   `values(options)`                them all, a `std::array<option_value, N>`: ranks compare it when a trainer is
///   made,
///                                    since replicas that are updated differently differ; not where `options` is empty
///   `update<Backend>(options, facts, w, g, state, n)`, void, which updates `n` elements of one parameter in place: for
///                                    any `Backend` and element type T, `options const&`, `update_facts const&`, `T*
///                                    w`, `T const* g`, `std::array<T*, slots> const& state`
/// State starts at zero. **Optional.** `check(options)` throws heddle::error for options that mean nothing;
/// `slot_names`, a `std::array<std::string_view, slots>`, is what the ledger calls the state arrays. Under mixed
/// precision T is the type of the master weights; an `update` that takes its gradient as a `G const* g`, G a type of
/// its own, is given it as it stands, and any other in pieces that are widened before. `list<Backend, Value, Master,
/// Gradient>` and `coefficients_of(options, learning_rate)` update all parameters together (backend/host/adamw_list.hpp
/// has the members of a list): their step waits for nothing on the host. `using lists_of = ` the optimizer itself says
/// that they are its own, and not those of an optimizer that it derives from, whose `update` it may replace. Where a
/// backend has no such list, `update` is called.
/// **Laws.** Element-wise: updating two halves equals updating the whole, so any layout of parameter, gradient and
/// state that agree will do.
/// **Models.** adamw.
template <class O>
concept Optimizer = detail::HasStateAndOptions<O> && detail::Updates<O> &&
    (std::is_empty_v<typename O::options> || detail::TellsOptions<O>);

}  // namespace heddle
