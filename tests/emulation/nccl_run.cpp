// SPDX-License-Identifier: Apache-2.0
// Runs of plans over NCCL: threads of one process, and processes that find each other over TCP (here threads, too, with
// a launch each: the stand-in for NCCL is one process's).
#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <heddle/cuda/nccl.hpp>
#include <heddle/heddle.hpp>
#include <string>
#include <thread>
#include <vector>

#include "../comm/failing.hpp"
#include "../comm/watchdog.hpp"
#include "nccl_ranks.hpp"

namespace {

namespace hd = heddle;
using namespace heddle::testing;
using hd::comm::launch;
using std::chrono::seconds;

struct cube : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::pp, 2>, hd::axis<hd::tp, 2>>, hd::micro_batch<1>,
                       hd::accumulate<2>, hd::pipeline<hd::one_f_one_b>> {};
struct alone : hd::plan<hd::mesh<hd::axis<hd::dp, 1>>, hd::micro_batch<1>> {};

/// A step's communication along every axis, each with its own group: what this rank finds wrong.
template <class Rank>
int wrong_on(Rank& rank) {
  using floats = array<nccl_ranks, float>;
  std::size_t const d = rank.template coordinate<hd::dp>(), p = rank.template coordinate<hd::pp>(),
                    t = rank.template coordinate<hd::tp>();
  int wrong = rank.rank() == (d * 2 + p) * 2 + t ? 0 : 1;
  auto& pipeline = rank.template along<hd::pp>();
  if (pipeline.name() != "pp" || pipeline.rank() != p || pipeline.world_rank() != rank.rank()) ++wrong;
  floats const activation(3, static_cast<float>(10 * d + t)), sum(5, 1.0F), gradient(7, static_cast<float>(d));
  floats const back(3, 2.0F);
  for (int step = 0; step < 4; ++step) {
    // One stage receives what the other sends, while both reduce: no order that could deadlock.
    if (p == 0) {
      auto const sent = pipeline.send_async(activation.read(), 1);
      rank.template along<hd::tp>().all_reduce(sum.span());
      pipeline.receive(back.span(), 1);
    } else {
      floats const input(3);
      pipeline.receive(input.span(), 0);
      rank.template along<hd::tp>().all_reduce(sum.span());
      auto const sent = pipeline.send_async(input.read(), 0);
      if (input.first() != static_cast<float>(10 * d + t)) ++wrong;
    }
    rank.template along<hd::dp>().all_reduce(gradient.span(), hd::comm::reduction::max);
  }
  if (p == 0 && back.first() != static_cast<float>(10 * d + t)) ++wrong;
  if (sum.first() != 16.0F || gradient.first() != 1.0F) ++wrong;
  return wrong;
}

/// `body(launch)` on a thread for each of `ranks` launches of one run over loopback; what each threw.
std::vector<std::string> launched(std::size_t ranks, std::function<void(launch const&)> const& body) {
  std::uint16_t const port = hd::comm::tcp_listener("127.0.0.1", 0).port();
  std::vector<std::string> texts(ranks);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      try {
        body({{r, ranks, r}, "127.0.0.1", port});
      } catch (hd::error const& one) {
        texts[r] = one.what();
      }
    });
  for (std::thread& one : threads) one.join();
  return texts;
}

std::string failure_of(std::function<void()> const& body) {
  try {
    body();
  } catch (hd::error const& one) {
    return one.what();
  }
  return {};
}

}  // namespace

TEST_CASE("nccl: a plan on threads, each with a device") {
  watchdog const guard(seconds(60));
  for (std::uint64_t const seed : {0, 2, 3}) {
    nccl_session const here({.mode = seed == 0 ? hd::emulation::execution::eager : hd::emulation::execution::delayed,
                             .seed = seed,
                             .devices = 8});
    std::atomic<int> wrong{0}, ranks{0};
    hd::run<cube>(hd::nccl_threads, [&](auto& rank) {
      wrong += wrong_on(rank);
      ++ranks;
    });
    CHECK(wrong == 0);
    CHECK(ranks == 8);
  }
}

TEST_CASE("nccl: the page's program") {
  watchdog const guard(seconds(60));
  nccl_session const here({.mode = hd::emulation::execution::delayed, .seed = 4, .devices = 4});
  struct two_by_two : hd::plan<hd::mesh<hd::axis<hd::dp, 2>, hd::axis<hd::tp, 2>>, hd::micro_batch<1>> {};
  std::atomic<int> right{0};
  // [run]
  hd::run<two_by_two>(hd::nccl_threads, {.timeout = std::chrono::seconds(60)}, [&](auto& rank) {
    using memory = hd::cuda::device_memory;
    std::vector<float> values(1000, static_cast<float>(rank.rank()));
    memory::arena<float> const gradient(values.size());
    memory::from_host(values.data(), gradient.data(), values.size());

    auto& data = rank.template along<hd::dp>();  // ranks 0 2 | 1 3: one of NCCL's communicators
    auto reduced = data.all_reduce_async(std::span(gradient.data(), gradient.size()));
    // what does not use `gradient`
    reduced.wait();  // the compute stream waits, not the host

    memory::to_host(gradient.data(), values.data(), values.size());
    if (values[0] == (rank.rank() % 2 == 0 ? 2.0f : 4.0f)) ++right;
  });
  // [/run]
  CHECK(right == 4);
}

TEST_CASE("nccl: a plan on processes, which find each other over TCP") {
  watchdog const guard(seconds(60));
  nccl_session const here({.mode = hd::emulation::execution::delayed, .seed = 5, .devices = 8});
  std::atomic<int> wrong{0}, ranks{0};
  for (std::string const& one : launched(8, [&](launch const& mine) {
         hd::cuda::run_nccl_process(mine, [&](hd::cuda::nccl_communicator& world) {
           hd::mesh_communicator<cube::mesh, hd::cuda::nccl_communicator> rank(world);
           wrong += wrong_on(rank);
           ++ranks;
         });
       }))
    CHECK(one == "");
  CHECK(wrong == 0);
  CHECK(ranks == 8);
}

TEST_CASE("nccl: a plan on processes that are given their launch") {
  watchdog const guard(seconds(60));
  nccl_session const here({.mode = hd::emulation::execution::delayed, .seed = 6, .devices = 8});
  std::atomic<int> wrong{0}, ranks{0};
  for (std::string const& one : launched(8, [&](launch const& mine) {
         // [launched]
         hd::run<cube>(hd::nccl.launched(mine), {.timeout = std::chrono::seconds(60)}, [&](auto& rank) {
           wrong += wrong_on(rank);
           ++ranks;
         });
         // [/launched]
       }))
    CHECK(one == "");
  CHECK(wrong == 0);
  CHECK(ranks == 8);
  CHECK(has(failure_of([] {
              hd::run<cube>(hd::nccl.launched({{1, 2, 1}, "127.0.0.1", 1}), [](auto&) {});
            }),
            "the mesh has 8 ranks, and 2 processes were launched"));
}

TEST_CASE("nccl: a process that fails ends the others, over TCP") {
  watchdog const guard(seconds(60));
  nccl_session const here({.mode = hd::emulation::execution::delayed, .seed = 5, .devices = 3});
  for (std::string const& one : launched(3, [&](launch const& mine) {
         hd::cuda::run_nccl_process(mine, [&](hd::cuda::nccl_communicator& world) {
           array<nccl_ranks, float> const data(4);
           world.barrier();
           if (world.rank() == 1) throw hd::error("the corpus has no more tokens");
           world.all_reduce(data.span());
           (void)data.values();
           for (;;) world.barrier();
         });
       }))
    CHECK(one == "rank 1 failed: the corpus has no more tokens");
}

TEST_CASE("nccl: a plan of one rank needs no other process") {
  nccl_session const here({});
  for (char const* const name : {"RANK", "LOCAL_RANK"}) ::setenv(name, "0", 1);
  ::setenv("WORLD_SIZE", "1", 1);
  int ranks = 0;
  hd::run<alone>(hd::nccl, [&](auto& rank) {
    array<nccl_ranks, float> const data(4, 3.0F);
    rank.world().all_reduce(data.span());
    if (data.first() == 3.0F) ++ranks;
  });
  CHECK(ranks == 1);
  CHECK(has(failure_of([] { hd::run<cube>(hd::nccl, [](auto&) {}); }),
            "the mesh has 8 ranks, and 1 processes were launched"));
  ::unsetenv("WORLD_SIZE");
  CHECK(has(failure_of([] { hd::run<alone>(hd::nccl, [](auto&) {}); }), "RANK is set and WORLD_SIZE is not"));
  for (char const* const name : {"RANK", "LOCAL_RANK"}) ::unsetenv(name);
}

TEST_CASE("nccl: fewer devices than ranks, and time limits that are none") {
  nccl_session const here({.devices = 2});
  CHECK(has(failure_of([] { hd::run<cube>(hd::nccl_threads, [](auto&) {}); }),
            "device 2, but this process sees 2 devices"));
  CHECK(has(failure_of([] {
              hd::cuda::run_nccl_process({{2, 3, 2}, "127.0.0.1", 1}, [](hd::cuda::nccl_communicator&) {});
            }),
            "this is local rank 2 of its machine, but it sees 2 devices"));
  CHECK(has(failure_of([] { hd::run<alone>(hd::nccl_threads, {.timeout = std::chrono::seconds(0)}, [](auto&) {}); }),
            "timeout is 0 ms; it must be positive"));
}
