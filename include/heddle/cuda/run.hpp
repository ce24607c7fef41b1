// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/cuda/shared_device.hpp>
#include <heddle/comm/threads.hpp>
#include <heddle/plan/plan.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/train/run.hpp>

namespace heddle {

/// Where ranks live: each is a thread of this process, and all compute on one device. Write the object,
/// `heddle::shared_device`, or `heddle::shared_device.on(1)` for another device than the first. For tests of a plan
/// where there is one GPU: what all ranks hold must fit into its memory, and it computes one after the other.
struct shared_device_type {
  int device = 0;

  [[nodiscard]] constexpr shared_device_type on(int number) const { return {number}; }
};
inline constexpr shared_device_type shared_device;

/// `run<plan>(threads, …)` for ranks that share a device: `rank` is a `mesh_communicator` for buffers in its memory,
/// and the rank's thread has a `cuda::execution`. Returns when the device has done what the ranks asked for.
template <Plan PlanType, class Function>
void run(shared_device_type where, comm::thread_options const& options, Function&& function) {
  cuda::run_shared_device(
      PlanType::mesh::size, where.device,
      [&](cuda::shared_device_communicator& world) {
        mesh_communicator<typename PlanType::mesh, cuda::shared_device_communicator> rank(world);
        function(rank);
      },
      options);
}
template <Plan PlanType, class Function>
void run(shared_device_type where, Function&& function) {
  run<PlanType>(where, comm::thread_options{}, function);
}

}  // namespace heddle
