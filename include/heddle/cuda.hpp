// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program that trains on NVIDIA devices needs: all of heddle.hpp, the device backend, and ranks that share a
// device. A .cu file includes it, with the folders `include` and `kernels` on its include path, and is linked with
// -lcublasLt. Ranks that have a device each come by name, heddle/cuda/nccl.hpp: NCCL is no part of the CUDA Toolkit,
// and whether a program must be linked with it is for its source to say, not for what is installed where it is
// compiled.
#include <heddle/backend/cuda.hpp>
#include <heddle/cuda/run.hpp>
#include <heddle/heddle.hpp>
#include <string>

namespace heddle::cuda {

/// Trains `Model` under `PlanType` on devices, with the ranks of `run<plan>(shared_device, …)`, or of
/// `run<plan>(nccl, …)` and `run<plan>(nccl_threads, …)`. What `heddle::trainer` is on the host.
template <class Model, class PlanType>
using trainer = basic_trainer<Model, PlanType, cuda_backend>;

/// A plan's constants for a model on devices: `cuda::ledger<model, plan>::peak_bytes`. Layouts and traffic are the
/// host's; memory has the scratch of device primitives.
template <class Model, class PlanType>
using ledger = basic_ledger<resolved<Model, PlanType, cuda_backend>>;

/// A plan for a model on devices as text, to print before training: mesh, rules, layouts, memory, traffic, bubble.
template <class Model, class PlanType>
std::string describe() {
  return describe_plan<resolved<Model, PlanType, cuda_backend>>();
}

}  // namespace heddle::cuda
