// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/comm/threads.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/tensor/mesh_communicator.hpp>

namespace heddle {

/// Where ranks live: each is a thread of this process. Write the object, `heddle::threads`.
struct threads_type {};
inline constexpr threads_type threads;

/// Runs `function(rank)` once on every rank of the plan's mesh and returns when all have. `rank` is a
/// `mesh_communicator`: `rank.rank()`, `rank.template along<Axis>()`.
///
/// **Errors.** What the first failing rank threw ends the others within seconds and is rethrown here, naming the rank;
/// a rank that does not come to a communication is reported after the time limit in `options`.
template <Plan PlanType, class Function>
void run(threads_type, comm::thread_options const& options, Function&& function) {
  comm::run_threads(
      PlanType::mesh::size,
      [&](comm::thread_communicator& world) {
        mesh_communicator<typename PlanType::mesh, comm::thread_communicator> rank(world);
        function(rank);
      },
      options);
}
template <Plan PlanType, class Function>
void run(threads_type where, Function&& function) {
  run<PlanType>(where, comm::thread_options{}, function);
}

}  // namespace heddle
