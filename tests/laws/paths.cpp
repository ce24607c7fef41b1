// SPDX-License-Identifier: Apache-2.0
#include "laws/paths.hpp"

#include <doctest/doctest.h>

#include <heddle/layout/layout_of.hpp>
#include <heddle/layout/names.hpp>

using namespace heddle;
using namespace heddle::laws;

namespace {

struct rows : axis_name<"rows"> {};
struct columns : axis_name<"columns"> {};
struct planes : axis_name<"planes"> {};
using mesh_2 = mesh<axis<dp, 2>>;
using mesh_4 = mesh<axis<tp, 4>>;
using mesh_2_2 = mesh<axis<dp, 2>, axis<tp, 2>>;
using mesh_2_3 = mesh<axis<dp, 2>, axis<tp, 3>>;
using mesh_2_2_2 = mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>;
using mesh_2_3_1 = mesh<axis<dp, 2>, axis<pp, 3>, axis<tp, 1>>;
using mesh_2_3_2 = mesh<axis<dp, 2>, axis<pp, 3>, axis<tp, 2>>;

using one = dims<dim<embed, 24>>;
using two = dims<dim<batch, 24>, dim<embed, 48>>;
using three = dims<dim<batch, 12>, dim<sequence, 24>, dim<embed, 36>>;
// The embedding width cannot be shared by 4, nor by 3.
using indivisible = dims<dim<batch, 12>, dim<embed, 10>>;

static_assert(every_layout(mesh_2::value, one::value).count == 3);
static_assert(every_layout(mesh_2_2::value, two::value).count == 18);
static_assert(every_layout(mesh_2_2_2::value, two::value).count == 92);
static_assert(every_layout(mesh_2_2_2::value, three::value).count == 176);

// One and two axes: every pair, by the compiler.
static_assert(for_all_pairs<path_laws, on<mesh<>, two>>);
static_assert(for_all_pairs<path_laws, on<mesh_2, three>>);
static_assert(for_all_pairs<path_laws, on<mesh_4, two>>);
static_assert(for_all_pairs<path_laws, on<mesh_4, indivisible>>);
static_assert(for_all_pairs<path_laws, on<mesh_2_2, one>>);
static_assert(for_all_pairs<path_laws, on<mesh_2_2, two>>);
static_assert(for_all_pairs<path_laws, on<mesh_2_3, two>>);
static_assert(for_all_pairs<path_laws, on<mesh_2_3, indivisible>>);
// Every split may pad, and some do: 10 over 4, over 2 and 3.
static_assert(for_all_pairs<path_laws, on<mesh_4, indivisible, true>>);
static_assert(for_all_pairs<path_laws, on<mesh_2_3, indivisible, true>>);
// Three axes and one dimension, in all six orders of significance: some rows, and all of them at run time.
static_assert(for_all_pairs<path_laws, on<mesh_2_2_2, one>, 7>);

/// At run time: arguments that are not constants keep the compiler from evaluating the search itself.
void check_between(mesh_value const& mesh, dimension_list const& dims, layout const& from, layout const& to) {
  redistribution const path = find_redistribution(mesh, dims, from, to);
  CHECK(path.exists);
  CHECK(ends_in_target::holds(mesh, dims, from, to, path));
}

}  // namespace

// The pairs of three axes and two or three dimensions are thousands: the same functions, run.
TEST_CASE("path laws hold for all pairs of layouts on three axes") {
  CHECK(failing_rows<path_laws, on<mesh_2_2_2, one>>() == 0);
  CHECK(failing_rows<path_laws, on<mesh_2_2_2, two>>() == 0);
  CHECK(failing_rows<path_laws, on<mesh_2_3_1, two>>() == 0);
  CHECK(failing_rows<path_laws, on<mesh_2_3_2, indivisible>>() == 0);
  CHECK(failing_rows<path_laws, on<mesh_2_2_2, three>>() == 0);
  CHECK(failing_rows<path_laws, on<mesh_2_3_2, indivisible, true>>() == 0);
}

TEST_CASE("the plain path leads from every layout to every other") {
  CHECK(failing_rows<plain_path_is_a_path, on<mesh_2_2, three>>() == 0);
  CHECK(failing_rows<plain_path_is_a_path, on<mesh_2_2_2, two>>() == 0);
  CHECK(failing_rows<plain_path_is_a_path, on<mesh_2_3, indivisible, true>>() == 0);
}

// Five axes at once: more layouts than the search looks at; eight: more than a compiler would wait for. There is a path
// all the same.
TEST_CASE("a redistribution of many axes has a path") {
  using five = mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>, axis<ep, 2>, axis<cp, 2>>;
  constexpr dimension_list d = dims<dim<batch, 32>, dim<sequence, 32>, dim<heads, 32>, dim<embed, 32>>::value;
  constexpr layout from = layout_of<five, split<batch, dp, pp, tp, ep, cp>>::value;
  constexpr layout to = layout_of<five, split<embed, cp, ep, tp, pp, dp>>::value;
  check_between(five::value, d, from, to);
  check_between(five::value, d, to, from);
  check_between(five::value, d, layout_of<five, partial<dp, pp, tp, ep, cp>>::value, to);

  using eight = mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>, axis<ep, 2>, axis<cp, 2>, axis<rows, 2>, axis<columns, 2>,
                     axis<planes, 2>>;
  constexpr dimension_list large = dims<dim<batch, 256>, dim<embed, 256>>::value;
  constexpr layout by_batch = layout_of<eight, split<batch, dp, pp, tp, ep, cp, rows, columns, planes>>::value;
  constexpr layout by_embed = layout_of<eight, split<embed, planes, columns, rows, cp, ep, tp, pp, dp>>::value;
  static_assert(find_redistribution(eight::value, large, by_batch, by_embed).exists);
  check_between(eight::value, large, by_batch, by_embed);
  check_between(eight::value, large, layout_of<eight, partial<dp, pp, tp, ep, cp, rows, columns, planes>>::value,
                by_embed);
}

TEST_CASE("no path on two axes is cheaper than the one found") {
  CHECK(paths_are_cheapest<on<mesh_2_2, one>>());
  CHECK(paths_are_cheapest<on<mesh_2_2, two>>());
  CHECK(paths_are_cheapest<on<mesh_2_3, two>>());
  CHECK(paths_are_cheapest<on<mesh_2_2, three>>());
  CHECK(paths_are_cheapest<on<mesh_2_3, indivisible>>());
}
