// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <heddle/layout/layout_of.hpp>
#include <heddle/layout/names.hpp>
#include <heddle/layout/rules.hpp>
#include <heddle/tensor/mesh_communicator.hpp>

#include "../comm/watchdog.hpp"
#include "laws/executed.hpp"

using namespace heddle;
using namespace heddle::laws;
using heddle::testing::watchdog;

namespace {

using mesh_2 = mesh<axis<dp, 2>>;
using mesh_4 = mesh<axis<tp, 4>>;
using mesh_2_2 = mesh<axis<dp, 2>, axis<tp, 2>>;
using mesh_2_3 = mesh<axis<dp, 2>, axis<tp, 3>>;
using mesh_2_2_2 = mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>;
using mesh_2_3_2 = mesh<axis<dp, 2>, axis<pp, 3>, axis<tp, 2>>;
using mesh_2_2_2_2 = mesh<axis<dp, 2>, axis<pp, 2>, axis<cp, 2>, axis<tp, 2>>;

/// Dimensions whose stored sizes are padded to what `Ways` ranks can share.
template <std::size_t Ways, class... Ds>
struct padded {
  static constexpr dimension_list value = [] {
    dimension_list d = dims<Ds...>::value;
    for (std::size_t k = 0; k < d.rank; ++k) d.dim[k].stored = padded_size(d.dim[k].size, Ways);
    return d;
  }();
};

/// Layouts of two dimensions on four axes between which most, or all, of the four move.
template <bool Padded>
struct four_axes {
  static constexpr mesh_value mesh = mesh_2_2_2_2::value;
  static constexpr dimension_list dims =
      Padded ? heddle::dims<dim<batch, 19>, dim<embed, 5>>::value : heddle::dims<dim<batch, 16>, dim<embed, 16>>::value;
  static constexpr layout_set layouts = [] {
    layout_set all{
        7,
        {{layout_of<mesh_2_2_2_2, partial<dp, pp, cp, tp>>::value,
          layout_of<mesh_2_2_2_2, split<batch, dp, pp, cp, tp>>::value,
          layout_of<mesh_2_2_2_2, split<embed, tp, cp, pp, dp>>::value,
          layout_of<mesh_2_2_2_2, split<batch, cp, dp>, split<embed, tp, pp>>::value,
          layout_of<mesh_2_2_2_2, split<embed, dp>, partial<pp, tp>, split<batch, cp>>::value,
          layout_of<mesh_2_2_2_2, split<batch, dp, pp>, partial<cp>>::value, layout_of<mesh_2_2_2_2>::value}}};
    for (layout& l : all.at)
      for (layout::on_axis& on : l.axis) on.padded = Padded && on.kind == placement::split;
    return all;
  }();
};

// All of it takes 4 s of processors, and 12 s of an idle clock; on two cores with fifteen others at work, 160.
constexpr std::chrono::seconds patience{400};

}  // namespace

TEST_CASE("redistributions as executed: two and four ranks") {
  watchdog guard(patience);
  check_executed<mesh_2, dims<dim<batch, 4>, dim<sequence, 2>, dim<embed, 6>>>();
  check_executed<mesh_4, dims<dim<batch, 4>, dim<sequence, 8>, dim<embed, 4>>>();
}
TEST_CASE("redistributions as executed: padded dimensions") {
  watchdog guard(patience);
  check_executed<mesh_4, padded<4, dim<vocab, 11>, dim<embed, 2>>>();
  check_executed<mesh_2_3, padded<6, dim<vocab, 11>, dim<embed, 5>>>();
}
TEST_CASE("redistributions as executed: splits that pad") {
  watchdog guard(patience);
  check_executed<mesh_4, dims<dim<vocab, 11>, dim<embed, 2>>, true>();
  check_executed<mesh_4, dims<dim<batch, 2>, dim<embed, 5>>, true>();
  check_executed<mesh_2_3, dims<dim<vocab, 7>, dim<embed, 5>>, true>();
}
TEST_CASE("redistributions as executed: two axes") {
  watchdog guard(patience);
  check_executed<mesh_2_2, dims<dim<batch, 4>, dim<sequence, 4>, dim<embed, 4>>>();
  check_executed<mesh_2_3, dims<dim<batch, 6>, dim<embed, 12>>>();
}
TEST_CASE("redistributions as executed: three axes") {
  watchdog guard(patience);
  check_executed<mesh_2_2_2, dims<dim<batch, 8>, dim<embed, 8>>>();
}
TEST_CASE("redistributions as executed: three axes of two and three ranks") {
  watchdog guard(patience);
  check_executed<mesh_2_3_2, dims<dim<batch, 12>, dim<embed, 12>>>();
  check_executed<mesh_2_3_2, dims<dim<batch, 7>, dim<embed, 5>>, true>();
}
TEST_CASE("redistributions as executed: three axes, three dimensions") {
  watchdog guard(patience);
  // Of the 30976 pairs every fifth, which meets each layout on either side: all take 20 s of a core.
  check_executed<mesh_2_2_2, dims<dim<batch, 8>, dim<sequence, 8>, dim<embed, 8>>>(5);
}
// What stands in for the search from four axes on: on fewer, where all pairs can be run, and between some layouts of
// four.
TEST_CASE("redistributions as executed: plain paths") {
  watchdog guard(patience);
  check_pairs_executed<plainly, mesh_2_3, on<mesh_2_3, dims<dim<vocab, 7>, dim<embed, 5>>, true>>();
  check_pairs_executed<plainly, mesh_2_2_2, on<mesh_2_2_2, dims<dim<batch, 8>, dim<embed, 8>>>>();
}
TEST_CASE("redistributions as executed: four axes") {
  watchdog guard(patience);
  constexpr layout_set all = four_axes<false>::layouts;
  constexpr redistribution path =
      find_redistribution(mesh_2_2_2_2::value, four_axes<false>::dims, all.at[0], all.at[2]);
  static_assert(path.exists &&
                path.cost == plainly::find(mesh_2_2_2_2::value, four_axes<false>::dims, all.at[0], all.at[2]).cost);
  check_pairs_executed<by_search, mesh_2_2_2_2, four_axes<false>>();
  check_pairs_executed<by_search, mesh_2_2_2_2, four_axes<true>>();
}

// known-faults.md, UN-3.
TEST_CASE("11 x 2 over four ranks: rows 3, 3, 3, 2 at offsets 0, 3, 6, 9") {
  constexpr dimension_list d = [] {
    dimension_list whole = dims<dim<vocab, 11>, dim<embed, 2>>::value;
    whole.dim[0].stored = 12;
    return whole;
  }();
  constexpr layout l = place(mesh_4::value, rules<shard<vocab, tp>>::value, d);
  constexpr std::size_t rows[] = {3, 3, 3, 2}, offsets[] = {0, 3, 6, 9};
  for (std::size_t r = 0; r < 4; ++r) {
    block_range const mine = local_block(mesh_4::value, d.dim[0], l, mesh_4::value.coordinates_of(r));
    CHECK(mine.origin == offsets[r]);
    CHECK(mine.valid == rows[r]);
    CHECK(mine.extent == 3);
    CHECK(local_size(mesh_4::value, d, l) == 3 * 2);
  }
  CHECK(d.size() == 11 * 2);
}
