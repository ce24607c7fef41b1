// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cublasLt.h>

#include <concepts>
#include <heddle/backend/cuda/status.hpp>
#include <heddle/error.hpp>
#include <memory>
#include <string>
#include <type_traits>

namespace heddle::cuda {

/// A call of cuBLASLt that failed. The text names the call, the code, its meaning, what to do,
/// and where it was made.
class blas_error : public error {
 public:
  blas_error(cublasStatus_t code, std::string const& text) : error(text), code_(code) {}
  [[nodiscard]] cublasStatus_t code() const { return code_; }

 private:
  cublasStatus_t code_;
};

namespace detail {

inline char const* remedy_of(cublasStatus_t code) {
  switch (code) {
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "; select the device before an execution is made, and look in nvidia-smi for a driver that serves this "
             "toolkit";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "; see in nvidia-smi who else holds the device's memory";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "; check the product's sizes, and that its operands lie in live memory of this device";
    case CUBLAS_STATUS_ARCH_MISMATCH:
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "; this device has no product of these types and alignments: use another precision, or operands that "
             "begin at multiples of 16 bytes";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "; the work that failed may lie before this call: compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1, names it";
    default:
      return "";
  }
}

}  // namespace detail

/// Throws `blas_error` unless `status` is success. `call` names the call in the text, or is asked for it.
template <class Call>
void check(cublasStatus_t status, Call const& call, source_place place = source_place::here()) {
  if (status == CUBLAS_STATUS_SUCCESS) [[likely]]
    return;
  std::string text;
  if constexpr (std::invocable<Call const&>)
    text = call();
  else
    text = call;
  throw blas_error(status, text + ": " + cublasLtGetStatusName(status) + " (" +
                               std::to_string(static_cast<int>(status)) + "), " + cublasLtGetStatusString(status) +
                               detail::remedy_of(status) + place.text());
}

/// cuBLASLt's handle, on the device that is current when it is made.
class blas_handle {
 public:
  blas_handle() {
    cublasLtHandle_t made = nullptr;
    cublasStatus_t const status = cublasLtCreate(&made);
    handle_.reset(made);
    check(status, "cublasLtCreate");
  }
  [[nodiscard]] cublasLtHandle_t get() const { return handle_.get(); }

 private:
  struct destroy {
    // It fails only for what is no handle.
    void operator()(cublasLtHandle_t handle) const noexcept { (void)cublasLtDestroy(handle); }
  };
  std::unique_ptr<std::remove_pointer_t<cublasLtHandle_t>, destroy> handle_;
};

}  // namespace heddle::cuda
