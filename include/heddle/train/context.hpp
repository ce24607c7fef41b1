// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <heddle/comm/reduction.hpp>
#include <heddle/layout/names.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/local_index_map.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/tensor/random_key.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/train/parameter_service.hpp>
#include <span>
#include <type_traits>

namespace heddle {

/// Targets with this value count nowhere: neither in the loss nor in its divisor.
inline constexpr std::int32_t ignored_target = -100;

/// What modules see of the run while they execute: the backend, who this rank is, the random key, the targets of the
/// micro-batch, its parameters as they are needed, and communication asked for by redistribution or by dimension.
template <class Element, class Backend, class Communicator>
class step_context {
 public:
  using backend = Backend;
  using element = Element;

  step_context(process_groups<Communicator>& comm, std::size_t micro_batches)
      : comm_(&comm), micro_batches_(micro_batches) {}

  [[nodiscard]] coordinates const& at() const { return comm_->at(); }
  [[nodiscard]] bool training() const { return training_; }
  [[nodiscard]] std::int32_t const* targets() const { return targets_; }
  [[nodiscard]] std::int32_t ignore_index() const { return ignored_target; }

  /// The same for rows that have these targets.
  [[nodiscard]] step_context with_targets(std::int32_t const* targets) const {
    step_context some = *this;
    some.targets_ = targets;
    return some;
  }

  /// The key of random site `site` in layer `layer`: of this step, and never that of initial weights. A `random_key`
  /// where the host can read the step, and else a `step_key`, which the backend's `dropout` takes.
  [[nodiscard]] auto key(std::size_t site, std::size_t layer) const {
    step_key const of_step{{seed_, key_step(step_), layer * max_sites + site}, step_in_memory_};
    if constexpr (std::is_same_v<typename Backend::memory, host_memory>)
      return static_cast<random_key>(of_step);
    else
      return of_step;
  }
  static constexpr std::uint64_t key_step(std::uint64_t step) { return step + 1; }
  /// From now on `key_step` of the step is found there, in the backend's memory.
  void find_step_in(std::uint64_t const* memory) { step_in_memory_ = memory; }

  /// Where this rank's part of a tensor lies in the global one. The batch is that of the whole step: micro-batches
  /// follow each other in it, so that masks do not depend on how the step is cut.
  [[nodiscard]] heddle::index_map index_map(dimension_list const& dims, layout const& l) const {
    dimension_list step_dims = dims;
    std::size_t const k = dims.index_of(id_v<batch>);
    if (k < dims.rank) step_dims.dim[k].size *= micro_batches_;
    heddle::index_map map = local_index_map(comm_->mesh_of_ranks(), dims, l, at(), step_dims);
    if (k < dims.rank) map.origin += micro_batch_ * dims.dim[k].size * map.stride[k];
    return map;
  }

  template <class T>
  void redistribute(redistribution const& path, T const* in, T* out, T* scratch) {
    heddle::redistribute(*comm_, path, in, out, scratch);
  }
  /// Completes a reduction over a dimension that the op splits; `axes` comes from `op_place::axes_of<Dimension>()`.
  template <class T>
  void sum_over(unsigned axes, std::span<T> data) {
    comm_->all_reduce(axes, data, comm::reduction::sum);
  }
  template <class T>
  void max_over(unsigned axes, std::span<T> data) {
    comm_->all_reduce(axes, data, comm::reduction::max);
  }

  // Modules say when a unit of parameters (nn/parameter_unit.hpp) is needed, and when its gradients are complete.
  void before_forward(std::size_t use, std::size_t copy) {
    if (service_ != nullptr) service_->before_forward(use, copy);
  }
  void before_backward(std::size_t use, std::size_t copy) {
    if (service_ != nullptr) service_->before_backward(use, copy);
  }
  void after_backward(std::size_t use, std::size_t copy) {
    if (service_ != nullptr) service_->after_backward(use, copy);
  }
  /// Which of the copies behind a use's pointer is copy `copy`: itself, or 0 where the pointer leads to it alone.
  [[nodiscard]] std::size_t parameter_slot(std::size_t use, std::size_t copy) const {
    return service_ != nullptr ? service_->parameter_slot(use, copy) : copy;
  }
  [[nodiscard]] std::size_t gradient_slot(std::size_t use, std::size_t copy) const {
    return service_ != nullptr ? service_->gradient_slot(use, copy) : copy;
  }
  /// Without a service all parameters and gradients are there, in their compute layouts.
  void serve(parameter_service* service) { service_ = service; }

  void begin_step(std::uint64_t seed, std::uint64_t step, bool training) {
    seed_ = seed;
    step_ = step;
    training_ = training;
  }
  void begin_micro_batch(std::size_t micro_batch, std::int32_t const* targets) {
    micro_batch_ = micro_batch;
    targets_ = targets;
  }

 private:
  static constexpr std::size_t max_sites = 1U << 16;
  process_groups<Communicator>* comm_;
  std::size_t micro_batches_;
  std::uint64_t seed_ = 0;
  std::uint64_t step_ = 0;
  std::uint64_t const* step_in_memory_ = nullptr;
  std::size_t micro_batch_ = 0;
  std::int32_t const* targets_ = nullptr;
  parameter_service* service_ = nullptr;
  bool training_ = true;
};

}  // namespace heddle
