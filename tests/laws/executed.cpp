// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

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

/// Dimensions whose stored sizes are padded to what `Ways` ranks can share.
template <std::size_t Ways, class... Ds>
struct padded {
  static constexpr dimension_list value = [] {
    dimension_list d = dims<Ds...>::value;
    for (std::size_t k = 0; k < d.rank; ++k) d.dim[k].stored = padded_size(d.dim[k].size, Ways);
    return d;
  }();
};

}  // namespace

TEST_CASE("redistributions as executed: two and four ranks") {
  watchdog guard(std::chrono::seconds(60));
  check_executed<mesh_2, dims<dim<batch, 4>, dim<sequence, 2>, dim<embed, 6>>>();
  check_executed<mesh_4, dims<dim<batch, 4>, dim<sequence, 8>, dim<embed, 4>>>();
}
TEST_CASE("redistributions as executed: padded dimensions") {
  watchdog guard(std::chrono::seconds(60));
  check_executed<mesh_4, padded<4, dim<vocab, 11>, dim<embed, 2>>>();
  check_executed<mesh_2_3, padded<6, dim<vocab, 11>, dim<embed, 5>>>();
}
TEST_CASE("redistributions as executed: splits that pad") {
  watchdog guard(std::chrono::seconds(60));
  check_executed<mesh_4, dims<dim<vocab, 11>, dim<embed, 2>>, true>();
  check_executed<mesh_4, dims<dim<batch, 2>, dim<embed, 5>>, true>();
  check_executed<mesh_2_3, dims<dim<vocab, 7>, dim<embed, 5>>, true>();
}
TEST_CASE("redistributions as executed: two axes") {
  watchdog guard(std::chrono::seconds(60));
  check_executed<mesh_2_2, dims<dim<batch, 4>, dim<sequence, 4>, dim<embed, 4>>>();
  check_executed<mesh_2_3, dims<dim<batch, 6>, dim<embed, 12>>>();
}
TEST_CASE("redistributions as executed: three axes") {
  watchdog guard(std::chrono::seconds(120));
  check_executed<mesh_2_2_2, dims<dim<batch, 8>, dim<embed, 8>>>();
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
