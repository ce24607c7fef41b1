// SPDX-License-Identifier: Apache-2.0
// Plans of several ranks, trained by ranks that share a device as by thread ranks on the host.
#include <doctest/doctest.h>

#include <heddle/layout/names.hpp>
#include <heddle/models/gpt2.hpp>
#include <heddle/plan/zero.hpp>

#include "../comm/watchdog.hpp"
#include "models.hpp"

namespace shared_device_models_cpp {

using namespace heddle;

using model = gpt2<gpt2_config{
    .vocabulary = 11, .context = 4, .layers = 2, .heads = 2, .width = 8, .tied = true, .dropout = 0.1}>;
/// Data, pipeline and tensor ranks, with sharded gradients and optimizer state.
struct three_axes
    : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, micro_batch<2>, accumulate<2>, precision<fp64>, zero<2>> {};
/// Parameters are gathered unit by unit, ahead of their use.
struct gathered : plan<mesh<axis<dp, 3>>, micro_batch<1>, precision<fp64>, zero<3>> {};

}  // namespace shared_device_models_cpp

using namespace shared_device_models_cpp;
using heddle::testing::watchdog;

TEST_CASE("shared device: data, pipeline and tensor ranks train as on the host") {
  watchdog const guard(std::chrono::seconds(300));
  emulation::check_model<model, three_axes>({0, 3});
}
TEST_CASE("shared device: parameters that are gathered train as on the host") {
  watchdog const guard(std::chrono::seconds(300));
  emulation::check_model<model, gathered>({1, 2});
}
TEST_CASE("shared device: no graph of one rank has what it asks of the others, nor an optimizer that asks the host") {
  emulation::session const here;
  auto const refused = [](auto const& call) { return emulation::failure_of(call); };
  std::string const text = refused([] {
    cuda::run_shared_device(3, 0, [](cuda::shared_device_communicator& world) {
      mesh_communicator<gathered::mesh, cuda::shared_device_communicator> rank(world);
      basic_trainer<model, gathered, cuda_backend> const run(rank, {.capture = true});
    });
  });
  CHECK(emulation::has(text, "'capture'"));
  CHECK(emulation::has(text, "this mesh has 3 ranks"));
  CHECK(emulation::has(text, "train on one rank"));
  CHECK(emulation::has(refused([] { detail::check_capture(true, false, 1, 0); }), "as heddle::adamw has them"));
  CHECK(emulation::has(refused([] { detail::check_capture(true, true, 1, 2); }), "name no axis"));
}
