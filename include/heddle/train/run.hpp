// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/host/thread_team.hpp>
#include <heddle/comm/threads.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <thread>

namespace heddle {

/// Where ranks live: each is a thread of this process. Write the object, `heddle::threads`, or
/// `heddle::threads.per_rank(2)` for ranks that compute with two threads each. That number changes no bit of what is
/// computed, and neither memory nor traffic of the ledger; each further thread keeps working memory of its own, as
/// products do.
struct threads_type {
  std::size_t team = 1;  ///< threads of a rank

  [[nodiscard]] constexpr threads_type per_rank(std::size_t count) const { return {count}; }
};
inline constexpr threads_type threads;

/// Runs `function(rank)` once on every rank of the plan's mesh and returns when all have. `rank` is a
/// `mesh_communicator`: `rank.rank()`, `rank.template along<Axis>()`.
///
/// **Errors.** What the first failing rank threw ends the others within seconds and is rethrown here, naming the rank;
/// a rank that does not come to a communication is reported after the time limit in `options`.
template <Plan PlanType, class Function>
void run(threads_type where, comm::thread_options const& options, Function&& function) {
  // A helper that waits for work may spin only where it keeps no other thread from its core.
  bool const spins = where.team * PlanType::mesh::size <= std::thread::hardware_concurrency();
  comm::run_threads(
      PlanType::mesh::size,
      [&](comm::thread_communicator& world) {
        host::thread_team const team(where.team, spins);
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
