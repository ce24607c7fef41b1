// SPDX-License-Identifier: Apache-2.0
// The memory of a trainer is the ledger's, by what malloc was asked for. After the first, a step takes none: neither
// the runner, nor the communicator, nor Eigen's packing; no thread of the process does, those that help a rank to
// compute or to communicate included.
#include <barrier>
#include <heddle/heddle.hpp>
#include <optional>

#include "../support/count_allocations.hpp"
#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

template <std::size_t Width>
using wide = gpt2<gpt2_config{.vocabulary = 13, .context = 8, .layers = 4, .heads = 4, .width = Width, .dropout = 0.1}>;
using model = wide<16>;

/// Allocations in five steps: of each rank's own thread in each, and of the whole process from when all ranks have
/// ended the first to when all have ended the last.
struct allocations_in_steps {
  std::vector<std::array<std::size_t, 5>> of_rank;
  std::size_t after_first = 0;
};
template <class Model, class Plan>
allocations_in_steps count_in_steps(threads_type where) {
  using trainer_type = trainer<Model, Plan>;
  allocations_in_steps counted{std::vector<std::array<std::size_t, 5>>(Plan::mesh::size), 0};
  std::barrier together(static_cast<std::ptrdiff_t>(Plan::mesh::size));
  std::size_t before = 0;
  run<Plan>(where, [&](auto& rank) {
    trace_recorder trace(4096);
    trainer_type trainer(rank, {.clip = 0.5, .trace = &trace});
    std::vector<std::int32_t> const tokens(trainer_type::local_tokens, 3), targets(trainer_type::local_tokens, 5);
    for (std::size_t s = 0; s < 5; ++s) {
      counted.of_rank[rank.rank()][s] = allocations_of([&] { trainer.step(tokens, targets); });
      if (s != 0 && s != 4) continue;
      together.arrive_and_wait();
      if (rank.rank() == 0 && s == 0) before = allocations_of_process;
      if (rank.rank() == 0 && s == 4) counted.after_first = allocations_of_process - before;
      together.arrive_and_wait();
    }
  });
  return counted;
}

template <class Plan, class Model = model>
void check_no_allocation(threads_type where = threads) {
  // The first step may make buffers that live as long as their thread: Eigen's packing, the communicator's records.
  allocations_in_steps const counted = count_in_steps<Model, Plan>(where);
  for (auto const& rank : counted.of_rank)
    for (std::size_t s = 1; s < 5; ++s) CHECK(rank[s] == 0);
  CHECK(counted.after_first == 0);
}
struct serial : plan<accumulate<4>> {};
struct sharded
    : plan<mesh<axis<dp, 2>, axis<pp, 2>>, accumulate<3>, zero<3>, bucket<1000>, reduce_gradients<per_step>> {};
struct at_once : plan<mesh<axis<dp, 2>, axis<pp, 2>>, accumulate<3>, zero<3>, bucket<1000>> {};
struct everything : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, accumulate<4>> {};

/// What each rank was given while its trainer was made, and in the first step.
struct given_to_rank {
  given_memory trainer, first_step;
  std::size_t ledger = 0;
};
template <class Model, class Plan>
std::vector<given_to_rank> given_memory_of() {
  using resolved_type = resolved<Model, Plan, host_backend>;
  std::vector<given_to_rank> all(Plan::mesh::size);
  run<Plan>(threads, [&](auto& rank) {
    given_to_rank& mine = all[rank.rank()];
    mine.ledger = ledger<Model, Plan>::memory(stage_partition<resolved_type>::stage_of(rank.at())).total();
    std::optional<trainer<Model, Plan>> made;
    allocations_of([&] { made.emplace(rank, typename trainer<Model, Plan>::options{.clip = 0.5}); });
    mine.trainer = given;
    std::vector<std::int32_t> const tokens(made->local_tokens, 3), targets(made->local_tokens, 5);
    allocations_of([&] { made->step(tokens, targets); });
    mine.first_step = given;
  });
  return all;
}

template <class Model, class Plan>
void check_given_memory() {
  constexpr std::size_t outside = 512 * KiB;  // docs/reference/ledger.md
  for (given_to_rank const& rank : given_memory_of<Model, Plan>()) {
    CHECK(rank.trainer.blocks >= rank.ledger);
    CHECK(rank.trainer.blocks < rank.ledger + rank.trainer.rounding);
    // Nine arenas, and three beside the ledger: two of single numbers, and a flag for each use of a parameter.
    CHECK(rank.trainer.rounding <= 12 * 128);
    CHECK(rank.trainer.other + rank.first_step.blocks + rank.first_step.other <= outside);
  }
}
}  // namespace

TEST_CASE("malloc is asked for the ledger's bytes when a trainer is made, on every rank") {
  check_given_memory<model, serial>();
  check_given_memory<model, everything>();
  check_given_memory<model, sharded>();
}
TEST_CASE("beside them for what does not depend on the sizes: no tensor is outside the arenas") {
  // How many records of calls there are depends on how far apart ranks were: some time they are as many.
  std::size_t of_narrow = 0, of_wider = 1;
  for (std::size_t tries = 0; of_wider != of_narrow && tries != 40; ++tries) {
    auto const narrow = given_memory_of<model, sharded>(), wider = given_memory_of<wide<32>, sharded>();
    // Of all ranks together: what they share is made by the one that comes first.
    of_narrow = of_wider = 0;
    for (std::size_t r = 0; r < narrow.size(); ++r) {
      REQUIRE(wider[r].ledger > 2 * narrow[r].ledger);
      of_narrow += narrow[r].trainer.other;
      of_wider += wider[r].trainer.other;
    }
  }
  CHECK(of_wider == of_narrow);
}

TEST_CASE("after the first, a step on one rank allocates nothing") { check_no_allocation<serial>(); }
TEST_CASE("after the first, a step under dp2 pp2 tp2 with dropout allocates nothing on any rank") {
  check_no_allocation<everything>();
}
TEST_CASE("a step under zero 3 with small buckets allocates nothing on any rank") { check_no_allocation<sharded>(); }
TEST_CASE("nor does one that reduces gradients per micro-batch") { check_no_allocation<at_once>(); }
TEST_CASE("nor does one of a model of which a part is frozen, under zero 3 and per micro-batch") {
  check_no_allocation<at_once, with_frozen<model, "wte", "lm_head", "h.attn">>();
}
TEST_CASE("nor does one with three threads, neither on the rank's own nor on the two that help it") {
  check_no_allocation<serial>(threads.per_rank(3));
}
TEST_CASE("the counter counts") {
  allocations = 0;
  counting = true;
  ::operator delete(::operator new(8));
  counting = false;
  CHECK(allocations == 1);
  std::size_t const before = allocations_of_process;
  std::thread([] { ::operator delete(::operator new(8)); }).join();
  CHECK(allocations_of_process > before + 1);  // the thread's own, and what it allocates
  CHECK(allocations == 1);
}
