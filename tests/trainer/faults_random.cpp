// SPDX-License-Identifier: Apache-2.0
// known-faults RN-1 and RN-2: masks of dropout in a step.
#include <cmath>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace faults_random {

TEST_CASE("RN-1: backward uses the very mask of the loss, and each step and layer has its own") {
  // L = Σ v_i · mask_i · w_i with v = 1: the gradient of w is the mask of the forward, that of v the mask of the
  // backward times w. w is irregular, so the loss tells which mask it had.
  using width = dim<embed, 64>;
  using drop = dropout<probability{0.5}>;
  using model = model_of<1, named<"x", embedding<dim<ids, 1>, width, ones>>, named<"v", scaled<width, ones>>, drop,
                         named<"w", scaled<width, normal(1)>>, weighted_loss<>>;
  struct one : plan<precision<fp64>, optimizer<sgd>> {};
  std::vector<double> w, last;
  double expected = 0;
  std::vector<double> losses, forward_of_mask;
  auto const result = train<model, one>(
      {.learning_rate = 0}, 3,
      [](std::size_t, std::size_t, std::size_t) {
        return example{0, 1};
      },
      [](auto&, coordinates const&) {},
      [&](auto& trainer, coordinates const&) {
        REQUIRE(trainer.parameter(1).entry->name.view() == "v.weight");
        REQUIRE(trainer.parameter(2).entry->name.view() == "w.weight");
        auto const p = trainer.parameter(2);
        std::vector<double> const mask(p.gradient, p.gradient + 64);
        expected = 0;
        std::size_t kept = 0;
        for (std::size_t i = 0; i < 64; ++i) {
          CHECK((mask[i] == 0 || mask[i] == 2));
          CHECK(trainer.parameter(1).gradient[i] == mask[i] * p.value[i]);
          kept += mask[i] == 2;
          expected += mask[i] * p.value[i];
        }
        CHECK(kept > 12);  // 32 ± 5 standard deviations
        CHECK(kept < 52);
        forward_of_mask.push_back(expected);
        CHECK(mask != last);
        last = mask;
      });
  // Only the order of 64 sums may differ.
  for (std::size_t s = 0; s < 3; ++s) CHECK(std::fabs(result.step[s].loss.sum - forward_of_mask[s]) <= 1e-13);
}

namespace {
constexpr std::size_t elements = 65536;  // per rank
using batch_dim = dim<batch, 4>;
using sequence_dim = dim<sequence, 32>;
using two_by_two = mesh<axis<dp, 2>, axis<tp, 2>>;
using modules = module_plan<two_by_two, megatron_rules, float, padding<>, dims<batch_dim, sequence_dim>, host_backend>;

/// The mask of each rank for an activation [batch, sequence, Width].
template <class Width>
std::array<std::vector<float>, 4> masks() {
  using placed_dropout = placed<dropout<probability{0.5}>, modules, dims<batch_dim, sequence_dim, Width>>;
  static_assert(placed_dropout::place::input_size == elements);
  std::array<std::vector<float>, 4> mask;
  comm::run_threads(4, [&](comm::thread_communicator& world) {
    mesh_communicator<two_by_two, comm::thread_communicator> rank(world);
    step_context<float, host_backend, comm::thread_communicator> context(rank, 1);
    context.begin_step(17, 0, true);
    context.begin_micro_batch(0, nullptr);
    std::vector<float> const x(elements, 1);
    auto& y = mask[rank.rank()];
    y.resize(elements);
    placed_dropout::forward(context, frame<float>{}, x.data(), y.data());
  });
  return mask;
}
void check_kept_fraction(std::array<std::vector<float>, 4> const& mask) {
  for (auto const& m : mask) {
    double kept = 0;
    for (float e : m) kept += e != 0;
    // Three standard deviations of the mean of as many coins.
    CHECK(std::fabs(kept / elements - 0.5) <= 3 * 0.5 / std::sqrt(static_cast<double>(elements)));
  }
}
}  // namespace

TEST_CASE("RN-2: on replicated activations masks agree inside a tp group and differ between data ranks") {
  auto const mask = masks<dim<embed, 1024>>();  // ranks: dp 0 tp 0, dp 0 tp 1, dp 1 tp 0, dp 1 tp 1
  CHECK(mask[0] == mask[1]);
  CHECK(mask[2] == mask[3]);
  CHECK(mask[0] != mask[2]);
  check_kept_fraction(mask);
}
TEST_CASE("RN-2: on activations that tp shards masks differ on all four ranks") {
  auto const mask = masks<dim<mlp, 2048>>();
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(mask[i] != mask[j]);
  check_kept_fraction(mask);
}

}  // namespace faults_random
