// SPDX-License-Identifier: Apache-2.0
// After the first round, no call allocates: on no thread of the process, helpers and watcher included.
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <span>

#include <heddle/comm/threads.hpp>
#include "watchdog.hpp"

using namespace heddle::comm;
using heddle::testing::watchdog;

namespace {
std::atomic<long> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* const p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment)) return p;
  throw std::bad_alloc();
}
}  // namespace

// Not inlined: g++ would otherwise see a free() of what an operator new gave, and warn.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {  // of std::stable_sort
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

TEST_CASE("the steady state allocates nothing") {
  watchdog const guard;
  static std::array<std::array<float, 40000>, 3> large;
  long during = -1;
  run_threads(3,
              [&](thread_communicator& world) {
                thread_communicator group = world.split(0, world.rank(), "a name longer than any small string buffer");
                std::array<float, 6> in{}, out{};
                std::array<float, 2> part{};
                std::array<std::size_t, 3> const lengths{2, 2, 2};
                std::span<float> const x(in), y(out), p(part);
                std::array<float, 9> more{};
                std::array<gather_part<float>, 2> const parts{{{p, y}, {x.first(3), more}}};
                auto const round = [&] {
                  group.all_reduce(x);
                  group.all_reduce(std::span<float>(large[world.rank()]));
                  group.reduce_scatter(x, p);
                  group.all_gather(p, y);
                  group.all_gather(gather_parts(parts));
                  group.all_gather_async(gather_parts(parts)).wait();
                  group.all_to_all(x, y);
                  group.all_to_all(x, lengths, y, lengths);
                  group.broadcast(x, 1);
                  group.barrier();
                  if (world.rank() == 0) group.send(x, 1);
                  if (world.rank() == 1) group.receive(x, 0);
                  thread_handle a = group.all_reduce_async(x);
                  thread_handle b = world.reduce_scatter_async(y, p);
                  std::array<float, 1> token{}, other{};
                  thread_handle c = group.send_async(std::span<float>(token), (world.rank() + 1) % 3);
                  thread_handle d = group.receive_async(std::span<float>(other), (world.rank() + 2) % 3);
                  c.wait();
                  d.wait();
                  b.wait();
                  a.wait();
                };
                for (int i = 0; i < 3; ++i) round();
                world.barrier();
                long const before = allocations.load();
                world.barrier();
                for (int i = 0; i < 50; ++i) round();
                std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the watcher looks several times
                world.barrier();
                if (world.rank() == 0) during = allocations.load() - before;
                world.barrier();
              },
              {.conflict_after = std::chrono::milliseconds(40)});
  CHECK(during == 0);
  CHECK(allocations > 0);  // the counter counts
}
