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

using tiny = gpt2<gpt2_config{.vocabulary = 5, .context = 2, .layers = 1, .heads = 1, .width = 4, .tied = false}>;
template <unsigned Stage>
struct data_ranks : plan<mesh<axis<dp, 2>>, micro_batch<1>, accumulate<2>, bucket<64>, zero<Stage>> {};

/// The bits of each rank's parameters after three steps, whose streams' work is delayed by `seed` if it is not 0.
template <class Plan>
std::vector<std::vector<float>> trained_bits(std::uint64_t seed) {
  emulation::session const here(
      {.mode = seed == 0 ? emulation::execution::eager : emulation::execution::delayed, .seed = seed});
  std::vector<std::vector<float>> bits(2);
  cuda::run_shared_device(2, 0, [&](cuda::shared_device_communicator& world) {
    mesh_communicator<typename Plan::mesh, cuda::shared_device_communicator> rank(world);
    using trainer = basic_trainer<tiny, Plan, cuda_backend>;
    trainer run(rank, {.seed = 5, .learning_rate = 0.1, .clip = 1});
    std::vector<std::int32_t> ids(trainer::local_tokens);
    for (std::int32_t step = 0; step < 3; ++step) {
      for (std::size_t i = 0; i < ids.size(); ++i)
        ids[i] = (step + static_cast<std::int32_t>(i * (run.data_rank() + 2))) % 5;
      (void)run.step(ids, ids);
    }
    for (std::size_t n = 0; n < run.parameter_count(); ++n) {
      std::vector<float> part(run.parameter(n).entry->size);
      cuda_backend::memory::to_host(static_cast<float const*>(run.parameter(n).value), part.data(), part.size());
      bits[rank.rank()].insert(bits[rank.rank()].end(), part.begin(), part.end());
    }
  });
  return bits;
}
template <unsigned Stage>
void check_delays_change_nothing() {
  auto const expected = trained_bits<data_ranks<Stage>>(0);
  for (std::uint64_t const seed : {1, 2, 3}) {
    CAPTURE(seed);
    CHECK(trained_bits<data_ranks<Stage>>(seed) == expected);
  }
}

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
TEST_CASE("shared device: late work changes no bit: no buffer is reused, no result read too early (OV-1, OV-3)") {
  watchdog const guard(std::chrono::seconds(100));
  check_delays_change_nothing<0>();
  check_delays_change_nothing<1>();
  check_delays_change_nothing<2>();
  check_delays_change_nothing<3>();
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
