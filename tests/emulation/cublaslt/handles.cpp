// SPDX-License-Identifier: Apache-2.0
// Stand-ins for cuBLASLt's handles and texts, with the signatures of its header.
#include <cublasLt.h>

#include <memory>

#include "../cudart/machine.hpp"
#include "handles.hpp"

namespace heddle::emulation {

blas_handles& blas_handles::get() {
  static blas_handles all;
  return all;
}
blas_calls blas_calls_now() {
  std::unique_lock<std::mutex> const lock(machine::get().mutex);
  return blas_handles::get().calls;
}

}  // namespace heddle::emulation

using heddle::emulation::blas_handles;
using heddle::emulation::machine;

cublasStatus_t cublasLtCreate(cublasLtHandle_t* out) {
  if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  machine& all = machine::get();
  std::unique_lock<std::mutex> const lock(all.mutex);
  *out = blas_handles::get().make(machine::device());
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  machine& all = machine::get();
  std::unique_lock<std::mutex> const lock(all.mutex);
  return blas_handles::get().destroy(handle) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}

namespace {
struct meaning {
  cublasStatus_t code;
  char const* name;
  char const* text;
};
#define HEDDLE_MEANING(code, text) \
  { code, #code, text }
constexpr meaning meanings[] = {
    HEDDLE_MEANING(CUBLAS_STATUS_SUCCESS, "success"),
    HEDDLE_MEANING(CUBLAS_STATUS_NOT_INITIALIZED, "the library was not initialized"),
    HEDDLE_MEANING(CUBLAS_STATUS_ALLOC_FAILED, "the resource allocation failed"),
    HEDDLE_MEANING(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function"),
    HEDDLE_MEANING(CUBLAS_STATUS_ARCH_MISMATCH,
                   "the function requires an architectural feature absent from the device"),
    HEDDLE_MEANING(CUBLAS_STATUS_EXECUTION_FAILED, "the GPU program failed to execute"),
    HEDDLE_MEANING(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality requested is not supported"),
};
#undef HEDDLE_MEANING
meaning const* meaning_of(cublasStatus_t code) {
  for (meaning const& one : meanings)
    if (one.code == code) return &one;
  return nullptr;
}
}  // namespace

char const* cublasLtGetStatusName(cublasStatus_t code) {
  meaning const* const one = meaning_of(code);
  return one == nullptr ? "unknown status" : one->name;
}
/// The meaning, with what the emulation knows of the thread's last refusal.
char const* cublasLtGetStatusString(cublasStatus_t code) {
  meaning const* const one = meaning_of(code);
  if (one == nullptr) return "unknown status";
  std::string const& more = heddle::emulation::last_blas_refusal();
  if (code == CUBLAS_STATUS_SUCCESS || more.empty()) return one->text;
  thread_local std::string text;
  text = std::string(one->text) + ": " + more;
  return text.c_str();
}
