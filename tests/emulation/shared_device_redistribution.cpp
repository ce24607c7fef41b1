// SPDX-License-Identifier: Apache-2.0
// Redistributions as ranks that share a device execute them: a covering set of what tests/laws/executed.cpp runs on
// thread ranks.
#include <doctest/doctest.h>

#include <heddle/layout/names.hpp>
#include <heddle/tensor/mesh_communicator.hpp>

#include "../comm/watchdog.hpp"
#include "../laws/laws/executed.hpp"
#include "shared_device_ranks.hpp"

using namespace heddle;
using namespace heddle::laws;
using heddle::testing::on_shared_devices;
using heddle::testing::shared_device_ranks;
using heddle::testing::watchdog;

namespace {

using mesh_4 = mesh<axis<tp, 4>>;
using mesh_2_3 = mesh<axis<dp, 2>, axis<tp, 3>>;
using mesh_2_2_2 = mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>;
constexpr std::chrono::seconds patience{400};

template <class Mesh, class Dims, bool Padded = false>
void check_on_a_device(std::size_t stride, std::initializer_list<std::uint64_t> seeds) {
  on_shared_devices([&] { check_executed<Mesh, Dims, Padded, shared_device_ranks>(stride); }, seeds);
}

}  // namespace

TEST_CASE("shared device: redistributions on four ranks") {
  watchdog const guard(patience);
  check_on_a_device<mesh_4, dims<dim<batch, 4>, dim<sequence, 8>, dim<embed, 4>>>(2, {0, 1, 3});
}
TEST_CASE("shared device: redistributions on two axes, of splits that pad") {
  watchdog const guard(patience);
  check_on_a_device<mesh_2_3, dims<dim<vocab, 7>, dim<embed, 5>>, true>(5, {1, 2});
}
TEST_CASE("shared device: redistributions on three axes") {
  watchdog const guard(patience);
  check_on_a_device<mesh_2_2_2, dims<dim<batch, 8>, dim<embed, 8>>>(97, {0, 4});
}
