// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where this program's ranks compute. As it is, on the host, as threads. With HEDDLE_ON_DEVICE, which needs nvcc, as
// threads that share the first device; with HEDDLE_OVER_NCCL beside it, as threads with a device each.
#include <chrono>
#include <cstddef>
#include <string>
#if defined(HEDDLE_ON_DEVICE)
#include <heddle/cuda.hpp>
#if defined(HEDDLE_OVER_NCCL)
#include <heddle/cuda/nccl.hpp>
#endif
#else
#include <heddle/heddle.hpp>
#endif

namespace place {

namespace hd = heddle;

/// Long enough for a step of the largest model on a busy machine.
inline constexpr std::chrono::minutes patience(30);

#if defined(HEDDLE_ON_DEVICE)

inline constexpr bool on_device = true;
using backend = hd::cuda_backend;

/// What the ranks of a plan compute on; an error where there is no device.
template <class Plan>
std::string name() {
  int const there = hd::cuda::device_count();
  if (there == 0)
    throw hd::error(
        "this program computes on NVIDIA devices, and this process sees none; nvidia-smi shows those that there are, "
        "CUDA_VISIBLE_DEVICES says which a process sees, and --device host does without");
  std::string const device = hd::cuda::device_name(0);
#if defined(HEDDLE_OVER_NCCL)
  return std::to_string(Plan::mesh::size) + " of " + std::to_string(there) + " devices, over NCCL: " + device;
#else
  return Plan::mesh::size == 1 ? device : device + ", shared by " + std::to_string(Plan::mesh::size) + " ranks";
#endif
}

template <class Plan, class Function>
void run(std::size_t, Function const& function) {
#if defined(HEDDLE_OVER_NCCL)
  hd::run<Plan>(hd::nccl_threads, hd::cuda::nccl_options{.timeout = patience}, function);
#else
  hd::run<Plan>(hd::shared_device, hd::comm::thread_options{.timeout = patience}, function);
#endif
}

template <class Model, class Plan>
std::string describe() {
  return hd::cuda::describe<Model, Plan>();
}

#else

inline constexpr bool on_device = false;
using backend = hd::host_backend;

template <class Plan>
std::string name() {
  return "the host, " + std::to_string(Plan::mesh::size) + (Plan::mesh::size == 1 ? " rank" : " ranks as threads");
}

template <class Plan, class Function>
void run(std::size_t threads_per_rank, Function const& function) {
  hd::run<Plan>(hd::threads.per_rank(threads_per_rank), hd::comm::thread_options{.timeout = patience}, function);
}

template <class Model, class Plan>
std::string describe() {
  return hd::describe<Model, Plan>();
}

#endif

}  // namespace place
