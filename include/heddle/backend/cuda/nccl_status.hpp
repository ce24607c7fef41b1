// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nccl.h>

#include <heddle/backend/cuda/source_place.hpp>
#include <heddle/error.hpp>
#include <string>

namespace heddle::cuda {

/// A call of NCCL that failed. The text names the call, the code, its meaning, NCCL's own last words, what to do,
/// and where it was made.
class nccl_error : public error {
 public:
  nccl_error(ncclResult_t code, std::string const& text) : error(text), code_(code) {}
  [[nodiscard]] ncclResult_t code() const { return code_; }

 private:
  ncclResult_t code_;
};

namespace detail {

inline char const* nccl_name_of(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "ncclSuccess";
    case ncclUnhandledCudaError:
      return "ncclUnhandledCudaError";
    case ncclSystemError:
      return "ncclSystemError";
    case ncclInternalError:
      return "ncclInternalError";
    case ncclInvalidArgument:
      return "ncclInvalidArgument";
    case ncclInvalidUsage:
      return "ncclInvalidUsage";
    case ncclRemoteError:
      return "ncclRemoteError";
    case ncclInProgress:
      return "ncclInProgress";
    default:
      return "an unknown code";
  }
}

inline char const* nccl_remedy_of(ncclResult_t code) {
  switch (code) {
    case ncclUnhandledCudaError:
      return "; NCCL_DEBUG=WARN names the call of CUDA that failed";
    case ncclSystemError:
      return "; NCCL_DEBUG=INFO says what of the system failed: shared memory (/dev/shm), a network interface "
             "(NCCL_SOCKET_IFNAME), or a limit of files";
    case ncclInvalidArgument:
    case ncclInvalidUsage:
      return "; check that each rank has a device of its own, and makes the same calls";
    case ncclRemoteError:
      return "; another process is gone, or the network between: see the output of the other ranks";
    case ncclInternalError:
      return "; NCCL_DEBUG=INFO says more";
    default:
      return "";
  }
}

inline std::string nccl_text_of(ncclResult_t code, std::string const& call, ncclComm_t communicator,
                                source_place const& place) {
  std::string text = call + ": " + nccl_name_of(code) + " (" + std::to_string(static_cast<int>(code)) + "), " +
                     ncclGetErrorString(code);
  if (char const* const more = ncclGetLastError(communicator); more != nullptr && *more != '\0')
    text += " (" + std::string(more) + ")";
  return text + nccl_remedy_of(code) + place.text();
}

}  // namespace detail

/// Throws `nccl_error` unless `status` is success. `call` names the call in the text; NCCL's last words are of the
/// communicator, where there is one.
inline void check_nccl(ncclResult_t status, char const* call, ncclComm_t communicator = nullptr,
                       source_place place = source_place::here()) {
  if (status != ncclSuccess) [[unlikely]]
    throw nccl_error(status, detail::nccl_text_of(status, call, communicator, place));
}

/// The version of the library that is loaded: 22809 is 2.28.9.
inline int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

}  // namespace heddle::cuda
