// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdio>
#include <exception>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/backend/cuda/execution.hpp>
#include <heddle/backend/cuda/nccl_communicator.hpp>
#include <heddle/backend/cuda/nccl_options.hpp>
#include <heddle/comm/launch.hpp>
#include <heddle/comm/tcp_exchange.hpp>
#include <heddle/comm/thread_exchange.hpp>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace heddle::cuda {

/// One rank of a run over NCCL, from start to end. `run_nccl_threads` and `run_nccl_process` are how to use it.
class nccl_run {
 public:
  /// `function(communicator)` on the calling thread, which computes with `device`. What goes wrong ends the run for all
  /// ranks, and is thrown here.
  template <class F>
  static void run(std::shared_ptr<comm::rank_exchange> const& exchange, int device, nccl_options const& options,
                  F& function) {
    std::size_t const rank = exchange->place().rank;
    try {
      execution mine(device);
      execution_scope const scope(mine);
      auto const context = std::make_shared<detail::nccl_context>(exchange, mine, options);
      struct closing {
        detail::nccl_context& one;
        ~closing() { one.close(); }  // before the execution, also where a communicator is left
      } const closes{*context};
      auto group = std::make_shared<detail::nccl_group>();
      group->context = context;
      group->name = "world";
      group->key = "world";
      group->members.resize(exchange->place().size);
      std::iota(group->members.begin(), group->members.end(), std::size_t{0});
      group->member = rank;
      group->link = &context->link(group->key, group->members, rank);
      context->furnish(*group->link, group->members.size());
      context->connect(*group->link);
      try {
        nccl_communicator world(std::move(group));
        function(world);
      } catch (...) {
        tell(*exchange);  // before NCCL's communicators are aborted, which others may see first
        throw;
      }
      context->finish();
    } catch (std::exception const& one) {
      fail(*exchange, one.what());
    } catch (...) {
      fail(*exchange, "an exception that is no std::exception");
    }
    exchange->leave();
  }

 private:
  static void tell(comm::rank_exchange& exchange) noexcept {
    try {
      try {
        throw;
      } catch (std::exception const& one) {
        fail(exchange, one.what());
      } catch (...) {
        fail(exchange, "an exception that is no std::exception");
      }
    } catch (...) {  // what is told is thrown later
    }
  }
  /// Of a run that has failed already this changes nothing: the first failure is the one that is told.
  [[noreturn]] static void fail(comm::rank_exchange& exchange, std::string const& text) {
    std::size_t const rank = exchange.place().rank;
    exchange.fail({comm::detail::failure_kind::rank, rank, "rank " + std::to_string(rank) + " failed: " + text,
                   std::current_exception()});
    exchange.throw_failure(true);
  }
};

/// Runs `function(communicator)` on a thread for each of these devices of this process, with an `nccl_communicator` of
/// all of them (named "world") and an `execution` of the device, which is current there; returns when all have returned
/// and the devices have done what they asked for. The first thing that goes wrong ends the run, as for
/// `comm::run_threads`: every rank that is in a call, or makes one later, throws it, and it is thrown here.
///
/// **Errors.** heddle::error for no device, one that is not there, or one twice: NCCL needs one for each rank.
template <class F>
void run_nccl_threads(std::vector<int> const& devices, F&& function, nccl_options const& options = {}) {
  int const there = device_count();
  std::set<int> seen;
  for (int const one : devices) {
    if (one < 0 || one >= there || !seen.insert(one).second)
      throw error("run_nccl_threads: device " + std::to_string(one) +
                  (one < 0 || one >= there ? ", but this process sees " + std::to_string(there) + " devices"
                                           : " is named twice; give each rank one of its own") +
                  "; nvidia-smi shows those that there are, and CUDA_VISIBLE_DEVICES those that this process sees");
  }
  if (devices.empty()) throw error("run_nccl_threads: no device is named; pass one for each rank");
  std::shared_ptr<comm::thread_exchanges> const all = comm::thread_exchange::of_threads(devices.size(), options.start);
  auto const of = [&](std::size_t r) { return std::shared_ptr<comm::rank_exchange>(all, (*all)[r].get()); };
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < devices.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        nccl_run::run(of(r), devices[r], options, function);
      } catch (...) {  // all ranks know, and it is thrown below
      }
    });
  for (std::thread& one : threads) one.join();
  if (!(*all)[0]->failed()) return;
  std::fflush(stdout);
  (*all)[0]->throw_failure(true);
}

/// Runs `function(communicator)` as the rank of a run that this process was launched as, on the device of its local
/// rank, or on the only one that it sees.
///
/// **Errors.** Those of `comm::tcp_exchange` where ranks do not come together; then as above: what goes wrong on one
/// rank ends all of them, within seconds, also where its process is gone.
template <class F>
void run_nccl_process(comm::launch const& from, F&& function, nccl_options const& options = {}) {
  int const there = device_count();
  std::size_t const device = there == 1 ? 0 : from.place.local_rank;
  if (device >= static_cast<std::size_t>(there))
    throw error("run_nccl_process: this is local rank " + std::to_string(from.place.local_rank) +
                " of its machine, but it sees " + std::to_string(there) +
                " devices; start as many processes as there are, or let each see its own (CUDA_VISIBLE_DEVICES)");
  auto const exchange = std::make_shared<comm::tcp_exchange>(from, options.start);
  try {
    nccl_run::run(exchange, static_cast<int>(device), options, function);
  } catch (...) {
    std::fflush(stdout);
    throw;
  }
}

}  // namespace heddle::cuda
