// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <boost/hana/for_each.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <concepts>
#include <cstddef>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>
#include <heddle/plan/plan.hpp>
#include <string>
#include <string_view>

namespace heddle {

/// A plan that can be asked for by name at run time: it has `static constexpr std::string_view name`.
template <class P>
concept NamedPlan = Plan<P> && requires {
  { P::name } -> std::convertible_to<std::string_view>;
};

/// Several compiled plans as one value: a run-time choice among them, and a loop over them. A heterogeneous collection
/// that users see, so it is a Boost.Hana tuple of types, `plan_set<…>::plans`, and every Hana algorithm applies to it.
///
/// Each plan that is used is compiled in full, so a set costs the sum of its plans.
template <class... Plans>
struct plan_set {
  static_assert(
      (NamedPlan<Plans> && ...),
      "plan_set<Plans...>: each plan must be a NamedPlan; derive it from heddle::plan<...> and give it a static "
      "constexpr std::string_view name");
  static constexpr std::size_t size = sizeof...(Plans);
  static constexpr auto plans = boost::hana::tuple_t<Plans...>;
  static constexpr std::array<std::string_view, size> names = {Plans::name...};

  /// Calls `f(boost::hana::type_c<Plan>)` for each plan, in order.
  template <class F>
  static void for_each(F&& f) {
    boost::hana::for_each(plans, f);
  }

  /// Calls `f(boost::hana::type_c<Plan>)` for the plan called `name`.
  /// **Errors.** heddle::error for a name that the set lacks, with those it has.
  template <class F>
  static void choose(std::string_view name, F&& f) {
    bool found = false;
    boost::hana::for_each(plans, [&](auto plan) {
      if (found || decltype(plan)::type::name != name) return;
      found = true;
      f(plan);
    });
    if (found) return;
    std::string known;
    for (std::string_view one : names) known += detail::joined_text({known.empty() ? "" : ", ", one});
    throw error(detail::joined_text({"plan_set: there is no plan '", name, "'; choose one of ", known}));
  }

 private:
  static constexpr bool names_differ() {
    for (std::size_t i = 0; i < size; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (names[i] == names[j]) return false;
    return true;
  }
  static_assert(names_differ(), "plan_set<Plans...>: names must differ; rename one of the two plans");
};

}  // namespace heddle
