// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace heddle {

/// A plan as the modules within `frozen` (nn/frozen.hpp) see it: everything of `Plan`, and that parameters are not
/// trained. Compositions pass on the plan that they are given, so none of them knows of it.
template <class Plan>
struct frozen_plan : Plan {};

namespace detail {

/// A plan as modules see it before which nothing is trained, and in which nothing is (nn/forward_only.hpp).
template <class Plan>
struct forward_plan : Plan {};

/// Whether the parameters of modules that are placed under this plan are trained.
template <class Plan>
inline constexpr bool trains_under = true;
template <class Plan>
inline constexpr bool trains_under<frozen_plan<Plan>> = false;
/// Whether modules that are placed under this plan have a backward.
template <class Plan>
inline constexpr bool goes_back_under = true;
template <class Plan>
inline constexpr bool goes_back_under<forward_plan<Plan>> = false;
template <class Plan>
inline constexpr bool goes_back_under<frozen_plan<Plan>> = goes_back_under<Plan>;

/// Frozen once is frozen.
template <class Plan>
struct freeze {
  using type = frozen_plan<Plan>;
};
template <class Plan>
struct freeze<frozen_plan<Plan>> {
  using type = frozen_plan<Plan>;
};
template <class Plan>
using freeze_t = typename freeze<Plan>::type;

}  // namespace detail

}  // namespace heddle
