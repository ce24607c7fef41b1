// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/blas.hpp>
#include <heddle/backend/cuda/device.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/product_plans.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <heddle/error.hpp>
#include <utility>

namespace heddle::cuda {

/// What a rank computes with: a device, which it may share with other ranks; a stream for its primitives, one for what
/// it sends and receives, and one for copies between host and device; cuBLASLt's handle; and a few kilobytes for the
/// parts of sums over whole arrays. All it does lies in the order of its own streams. It is made, and destroyed, by the
/// rank's thread; static functions (primitives, `device_memory`) find it by `execution::current`, while an
/// `execution_scope` says so.
class execution {
 public:
  /// Selects the device for the calling thread.
  explicit execution(int device) : device_((select_device(device), device)) {}
  execution(execution const&) = delete;
  execution& operator=(execution const&) = delete;

  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] stream const& compute() const { return compute_; }
  [[nodiscard]] stream const& communication() const { return communication_; }
  [[nodiscard]] stream const& copies() const { return copies_; }
  [[nodiscard]] blas_handle const& blas() const { return blas_; }
  [[nodiscard]] product_plans& products() { return products_; }

  /// Room for the parts of a sum over a whole array, from the launch that writes them to the next one, which adds them
  /// up: of work on `compute`, one sum's at a time.
  static constexpr std::size_t most_parts = 1024;
  [[nodiscard]] double* parts() const { return parts_.data(); }

  /// The calling thread's; an error where it has none.
  static execution& current() {
    if (of_thread() == nullptr)
      throw error(
          "cuda::execution: this thread calls a primitive of the device and has no execution; make a "
          "cuda::execution of its device and a cuda::execution_scope for as long as it calls them");
    return *of_thread();
  }
  /// Null where it has none.
  static execution*& of_thread() {
    static thread_local execution* one = nullptr;
    return one;
  }

 private:
  int device_;
  stream compute_, communication_, copies_;
  blas_handle blas_;
  product_plans products_{blas_};
  device_arena<double> parts_{most_parts};
};

/// While it lives, `one` is what the calling thread computes with, and its device the thread's. Scopes nest.
class execution_scope {
 public:
  explicit execution_scope(execution& one) : previous_device_(current_device()) {
    select_device(one.device());
    previous_ = std::exchange(execution::of_thread(), &one);
  }
  execution_scope(execution_scope const&) = delete;
  execution_scope& operator=(execution_scope const&) = delete;
  ~execution_scope() {
    execution::of_thread() = previous_;
    detail::note(cudaSetDevice(previous_device_), "cudaSetDevice");
  }

 private:
  execution* previous_ = nullptr;
  int previous_device_;
};

}  // namespace heddle::cuda
