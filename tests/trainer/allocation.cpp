// SPDX-License-Identifier: Apache-2.0
// A step takes no memory: neither the runner, nor the communicator, nor Eigen's packing. The C library's allocation
// functions are replaced by counting ones, under which operator new ends too.
#include <cerrno>
#include <cstdlib>
#include <heddle/heddle.hpp>

#include "tiny.hpp"

namespace {
thread_local bool counting = false;
thread_local std::size_t allocations = 0;

void count() {
  if (counting) ++allocations;
}
}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) {
  count();
  return __libc_calloc(n, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count();
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}
}

using namespace heddle;
using namespace heddle::testing;

namespace {

using model = gpt2<gpt2_config{.vocabulary = 13, .context = 8, .layers = 4, .heads = 4, .width = 16, .dropout = 0.1}>;

/// Allocations of each rank in each of five steps.
template <class Plan>
std::vector<std::array<std::size_t, 5>> allocations_of_steps() {
  using trainer_type = trainer<model, Plan>;
  std::vector<std::array<std::size_t, 5>> counted(Plan::mesh::size);
  run<Plan>(threads, [&](auto& rank) {
    trace_recorder trace(4096);
    trainer_type trainer(rank, {.clip = 0.5, .trace = &trace});
    std::vector<std::int32_t> const tokens(trainer_type::local_tokens, 3), targets(trainer_type::local_tokens, 5);
    for (std::size_t s = 0; s < 5; ++s) {
      allocations = 0;
      counting = true;
      trainer.step(tokens, targets);
      counting = false;
      counted[rank.rank()][s] = allocations;
    }
  });
  return counted;
}

template <class Plan>
void check_no_allocation() {
  // The first step may make buffers that live as long as their thread: Eigen's packing, the communicator's records.
  for (auto const& rank : allocations_of_steps<Plan>())
    for (std::size_t s = 1; s < 5; ++s) CHECK(rank[s] == 0);
}
struct serial : plan<accumulate<4>> {};
struct everything : plan<mesh<axis<dp, 2>, axis<pp, 2>, axis<tp, 2>>, accumulate<4>> {};
}  // namespace

TEST_CASE("a step on one rank allocates nothing") { check_no_allocation<serial>(); }
TEST_CASE("a step under dp2 pp2 tp2 with dropout allocates nothing on any rank") { check_no_allocation<everything>(); }
TEST_CASE("the counter counts") {
  allocations = 0;
  counting = true;
  ::operator delete(::operator new(8));
  counting = false;
  CHECK(allocations == 1);
}
