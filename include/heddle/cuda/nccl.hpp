// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/cuda/nccl.hpp>
#include <heddle/comm/launch.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// Where ranks live: each is a process of its own, with a device of its own, and they meet over NCCL, as this launch
/// says. `heddle::nccl.launched(comm::launch_by_mpi(port))` is one.
struct launched_nccl_type {
  comm::launch from;
};

/// The same, in a program that torchrun or srun starts once for each rank: write the object, `heddle::nccl`;
/// `heddle::nccl.launched(from)` is for a launch that came otherwise.
struct nccl_type {
  [[nodiscard]] launched_nccl_type launched(comm::launch from) const { return {std::move(from)}; }
};
inline constexpr nccl_type nccl;

/// Where ranks live: each is a thread of this process, with a device of its own, and they meet over NCCL: the first
/// devices that the process sees.
struct nccl_threads_type {};
inline constexpr nccl_threads_type nccl_threads;

namespace detail {
template <class PlanType, class Function>
struct rank_of_plan {
  Function& function;

  void operator()(cuda::nccl_communicator& world) const {
    mesh_communicator<typename PlanType::mesh, cuda::nccl_communicator> rank(world);
    function(rank);
  }
};
}  // namespace detail

/// `run<plan>(threads, …)` for ranks that have a device each: `rank` is a `mesh_communicator` for buffers in the memory
/// of the rank's device, and its thread has a `cuda::execution`. Returns when the devices have done what they were
/// asked for. `options` has the time limits.
///
/// **Errors.** A launch that is incomplete, of another number of processes than the mesh has ranks, or of fewer
/// devices; and those of a run: the first thing that goes wrong on any rank ends all of them, and is thrown on all.
template <Plan PlanType, class Function>
void run(launched_nccl_type const& where, cuda::nccl_options const& options, Function&& function) {
  comm::launch const& here = where.from;
  if (here.place.size != PlanType::mesh::size)
    throw error(
        "run<plan>(nccl): the mesh has " + std::to_string(PlanType::mesh::size) + " ranks, and " +
        std::to_string(here.place.size) +
        " processes were launched (WORLD_SIZE, SLURM_NTASKS, or mpirun's -n); start as many as the mesh has ranks");
  cuda::run_nccl_process(here, detail::rank_of_plan<PlanType, Function>{function}, options);
}
template <Plan PlanType, class Function>
void run(launched_nccl_type const& where, Function&& function) {
  run<PlanType>(where, cuda::nccl_options{}, function);
}

template <Plan PlanType, class Function>
void run(nccl_type where, cuda::nccl_options const& options, Function&& function) {
  run<PlanType>(where.launched(comm::launch_from_environment()), options, function);
}
template <Plan PlanType, class Function>
void run(nccl_type where, Function&& function) {
  run<PlanType>(where, cuda::nccl_options{}, function);
}

template <Plan PlanType, class Function>
void run(nccl_threads_type, cuda::nccl_options const& options, Function&& function) {
  std::vector<int> devices(PlanType::mesh::size);
  std::iota(devices.begin(), devices.end(), 0);
  cuda::run_nccl_threads(devices, detail::rank_of_plan<PlanType, Function>{function}, options);
}
template <Plan PlanType, class Function>
void run(nccl_threads_type where, Function&& function) {
  run<PlanType>(where, cuda::nccl_options{}, function);
}

}  // namespace heddle
