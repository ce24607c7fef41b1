// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/layout/names.hpp>
#include <heddle/plan/plan_set.hpp>
#include <string>
#include <vector>

namespace plan_set_test {

namespace hd = heddle;

struct alone : hd::plan<hd::micro_batch<3>> {
  static constexpr std::string_view name = "alone";
};
struct pair : hd::plan<hd::mesh<hd::axis<hd::dp, 2>>, hd::micro_batch<2>> {
  static constexpr std::string_view name = "pair";
};
struct nameless : hd::plan<> {};
using both = hd::plan_set<alone, pair>;

static_assert(hd::NamedPlan<alone> && !hd::NamedPlan<nameless> && !hd::NamedPlan<int>);
static_assert(both::size == 2 && both::names[1] == "pair");

TEST_CASE("a plan is chosen by name at run time") {
  for (std::string_view name : both::names) {
    std::size_t ranks = 0, batch = 0;
    both::choose(name, [&](auto plan) {
      using chosen = typename decltype(plan)::type;
      ranks = chosen::mesh::size;
      batch = chosen::global_batch_size;
    });
    CHECK(ranks == (name == "pair" ? 2 : 1));
    CHECK(batch == (name == "pair" ? 4 : 3));
  }
}

TEST_CASE("an unknown name is an error that lists the known ones") {
  bool called = false;
  CHECK_THROWS_WITH_AS(both::choose("tripel", [&](auto) { called = true; }),
                       "plan_set: there is no plan 'tripel'; choose one of alone, pair", hd::error);
  CHECK_FALSE(called);
}

TEST_CASE("a loop visits the plans in order") {
  std::vector<std::string> seen;
  both::for_each([&](auto plan) { seen.emplace_back(decltype(plan)::type::name); });
  CHECK(seen == std::vector<std::string>{"alone", "pair"});
}

}  // namespace plan_set_test
