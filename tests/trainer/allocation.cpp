// SPDX-License-Identifier: Apache-2.0
// After the first, a step takes no memory: neither the runner, nor the communicator, nor Eigen's packing; no thread of
// the process does, those that help a rank to compute or to communicate included.
#include <barrier>
#include <heddle/heddle.hpp>

#include "../support/count_allocations.hpp"
#include "tiny.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using model = gpt2<gpt2_config{.vocabulary = 13, .context = 8, .layers = 4, .heads = 4, .width = 16, .dropout = 0.1}>;

/// Allocations in five steps: of each rank's own thread in each, and of the whole process from when all ranks have
/// ended the first to when all have ended the last.
struct allocations_in_steps {
  std::vector<std::array<std::size_t, 5>> of_rank;
  std::size_t after_first = 0;
};
template <class Plan>
allocations_in_steps count_in_steps(threads_type where) {
  using trainer_type = trainer<model, Plan>;
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

template <class Plan>
void check_no_allocation(threads_type where = threads) {
  // The first step may make buffers that live as long as their thread: Eigen's packing, the communicator's records.
  allocations_in_steps const counted = count_in_steps<Plan>(where);
  for (auto const& rank : counted.of_rank)
    for (std::size_t s = 1; s < 5; ++s) CHECK(rank[s] == 0);
  CHECK(counted.after_first == 0);
}
struct serial : plan<accumulate<4>> {};
struct sharded
    : plan<mesh<axis<dp, 2>, axis<pp, 2>>, accumulate<3>, zero<3>, bucket<1000>, reduce_gradients<per_step>> {};
struct at_once : plan<mesh<axis<dp, 2>, axis<pp, 2>>, accumulate<3>, zero<3>, bucket<1000>> {};
struct everything : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, accumulate<4>> {};
}  // namespace

TEST_CASE("after the first, a step on one rank allocates nothing") { check_no_allocation<serial>(); }
TEST_CASE("after the first, a step under dp2 pp2 tp2 with dropout allocates nothing on any rank") {
  check_no_allocation<everything>();
}
TEST_CASE("a step under zero 3 with small buckets allocates nothing on any rank") { check_no_allocation<sharded>(); }
TEST_CASE("nor does one that reduces gradients per micro-batch") { check_no_allocation<at_once>(); }
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
