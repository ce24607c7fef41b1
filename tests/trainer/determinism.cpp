// SPDX-License-Identifier: Apache-2.0
// A run is repeatable bit for bit on the same plan, whatever the threads' timing: two runs, one whose communication is
// late, and one whose collectives are over when their calls return.
#include <heddle/comm/delaying.hpp>
#include <heddle/heddle.hpp>

#include "comm/watchdog.hpp"
#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;
using namespace std::chrono_literals;

namespace determinism_test {
namespace {
using model = gpt2<gpt2_config{.vocabulary = 13, .context = 8, .layers = 4, .heads = 4, .width = 16, .dropout = 0.1}>;
struct everything : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, accumulate<5>, bucket<1000>> {};
/// Parameters arrive and gradients leave while others are computed with; buckets are cut through parameters.
struct sharded : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, accumulate<3>, zero<3>, bucket<1000>,
                      reduce_gradients<per_step>> {};
struct sharded_at_once : plan<mesh<axis<dp_replicate, 2>, axis<dp, 2>>, accumulate<2>, zero<3, dp>, bucket<700>,
                              reduce_gradients<per_micro_batch>> {};
/// In fp64, over three ranks and two copies of them.
struct sharded_over_three : plan<mesh<axis<dp_replicate, 2>, axis<dp, 3>>, precision<fp64>, zero<3, dp>, bucket<1400>> {
};
/// Updated parameters return in parts.
struct returned : plan<mesh<axis<dp, 2>, axis<pp, 2>>, accumulate<2>, zero<1>, bucket<700>> {};
/// Gradients leave after each micro-batch.
struct scattered : plan<mesh<axis<dp, 2>, axis<pp, 2>>, accumulate<2>, zero<2>, bucket<700>> {};
/// All of them have a bucket that is filled where another has travelled.
template <class Plan, stage_kind Kind>
constexpr bool reuses_buckets() {
  using buckets = gradient_buckets<resolved<model, Plan, host_backend>, Kind>;
  for (std::size_t k = 0; k < buckets::count; ++k)
    if (buckets::of[k].buckets() > 3) return true;
  return false;
}
template <class Plan>
constexpr bool reuse_buckets = reuses_buckets<Plan, stage_kind::first>() && reuses_buckets<Plan, stage_kind::last>();
static_assert(reuse_buckets<everything> && reuse_buckets<sharded> && reuse_buckets<returned> &&
              reuse_buckets<scattered>);
static_assert(reuses_buckets<sharded_at_once, stage_kind::whole>() &&
              reuses_buckets<sharded_over_three, stage_kind::whole>());
/// Few and small computations between its transfers, so that a delay outlasts them.
struct pipeline_alone : plan<mesh<axis<pp, 4>>, accumulate<5>> {};

// Instrumented, a step takes ten times as long, and what a sanitizer finds it finds in the first ones.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t steps_to_delay = 3;
#elif defined(__has_feature)
constexpr std::size_t steps_to_delay = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ? 3 : 20;
#else
constexpr std::size_t steps_to_delay = 20;
#endif

/// Everything a rank has after some steps: losses, norms, parameters, gradients.
using bits = std::vector<std::vector<double>>;

template <class Plan, class Rank>
std::vector<double> work(Rank& rank, std::size_t steps) {
  using trainer_type = trainer<model, Plan>;
  trainer_type trainer(rank, {.seed = 5, .learning_rate = 1e-2, .clip = 0.5});
  std::vector<double> all;
  std::vector<std::int32_t> tokens(trainer_type::local_tokens);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>((i * i + 3 * i) % 13);
  for (std::size_t s = 0; s < steps; ++s) {
    // Forward only: a stage's slots are written again while earlier sends may be on their way.
    if (s < 3) all.push_back(trainer.evaluate(tokens, tokens).sum);
    auto const result = step_on(trainer, s, [](std::size_t step, std::size_t g, std::size_t t) {
      return example{static_cast<std::int32_t>((7 * step + 5 * g + t * t) % 13),
                     static_cast<std::int32_t>((step + 3 * g + 2 * t) % 13)};
    });
    all.push_back(result.loss.sum);
    all.push_back(result.gradient_norm);
  }
  for (std::size_t n = 0; n < trainer.parameter_count(); ++n) {
    auto const p = trainer.parameter(n);
    all.insert(all.end(), p.value, p.value + p.entry->size);
    all.insert(all.end(), p.gradient, p.gradient + p.entry->reduced_size);
  }
  return all;
}
template <class Plan>
bits plain_run(std::size_t steps) {
  bits all(Plan::mesh::size);
  run<Plan>(threads, [&](auto& rank) { all[rank.rank()] = work<Plan>(rank, steps); });
  return all;
}
template <class Plan>
bits delayed_run(std::size_t steps, comm::delay_options const& how) {
  bits all(Plan::mesh::size);
  comm::run_threads(Plan::mesh::size, [&](comm::thread_communicator& world) {
    comm::delaying<comm::thread_communicator> late(world.split(0, world.rank(), "world"), how);
    mesh_communicator<typename Plan::mesh, comm::delaying<comm::thread_communicator>> rank(late);
    all[rank.rank()] = work<Plan>(rank, steps);
  });
  return all;
}
template <class Plan>
void check_delayed(std::uint64_t seed) {
  bits const plain = plain_run<Plan>(steps_to_delay);
  CHECK(delayed_run<Plan>(steps_to_delay, {.seed = seed, .longest = 300us}) == plain);
  CHECK(delayed_run<Plan>(steps_to_delay, {.longest = 0us, .delay_blocking = false, .overlap = false}) == plain);
}
}  // namespace

TEST_CASE("two runs of one plan give the same bits on all eight ranks") {
  auto const first = plain_run<everything>(3);
  CHECK(first[0].size() > 100);
  CHECK(plain_run<everything>(3) == first);
}
TEST_CASE(
    "communication that is late, or over at once, changes no bit: no buffer is reused, no result read too early "
    "(OV-1, OV-3, LS-2)") {
  watchdog const dog(std::chrono::seconds(250));
  check_delayed<everything>(1);
  check_delayed<sharded>(2);
  check_delayed<sharded_at_once>(3);
  check_delayed<returned>(4);
  check_delayed<scattered>(5);
  check_delayed<sharded_over_three>(6);
  auto const first = plain_run<pipeline_alone>(3);
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    CHECK(delayed_run<pipeline_alone>(3, {.seed = seed, .longest = 4000us}) == first);
}

}  // namespace determinism_test
