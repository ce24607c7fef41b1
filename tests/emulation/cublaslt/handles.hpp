// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cublasLt.h>

#include <map>
#include <memory>
#include <string>

namespace heddle::emulation {

/// Why a call returns an error.
struct blas_refusal {
  cublasStatus_t code;
  std::string text;
};

/// What cuBLASLt was asked for since the program began.
struct blas_calls {
  std::map<cublasLtEpilogue_t, std::size_t> products;  ///< that were run, by epilogue
  std::size_t asked = 0;                               ///< for an algorithm
};
/// So far.
blas_calls blas_calls_now();

/// Handles of cuBLASLt, under the machine's mutex.
class blas_handles {
 public:
  static blas_handles& get();
  blas_calls calls;

  cublasLtHandle_t make(int device) {
    auto made = std::make_unique<int>(device);
    auto* const handle = reinterpret_cast<cublasLtHandle_t>(made.get());
    device_[handle] = std::move(made);
    return handle;
  }
  bool destroy(cublasLtHandle_t handle) { return device_.erase(handle) == 1; }
  /// -1 of what is no handle.
  [[nodiscard]] int device_of(cublasLtHandle_t handle) const {
    auto const found = device_.find(handle);
    return found == device_.end() ? -1 : *found->second;
  }
  [[nodiscard]] std::size_t count() const { return device_.size(); }

 private:
  std::map<cublasLtHandle_t, std::unique_ptr<int>> device_;
};

/// What was wrong with the calling thread's last call of cuBLASLt that was refused.
inline std::string& last_blas_refusal() {
  thread_local std::string text;
  return text;
}

}  // namespace heddle::emulation
