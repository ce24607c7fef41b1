// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <optional>

namespace heddle::cuda {

namespace detail {
inline nvtxDomainHandle_t nvtx_domain() {
  static nvtxDomainHandle_t const domain = nvtxDomainCreateA("heddle");
  return domain;
}
}  // namespace detail

/// A range of this thread's time in NVIDIA's profilers, in the domain "heddle", from here to the end of the scope.
/// Ranges lie one within the other. Where no profiler listens it costs a load and a jump.
class nvtx_range {
 public:
  explicit nvtx_range(char const* name) {
    nvtxEventAttributes_t what{};
    what.version = NVTX_VERSION;
    what.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    what.messageType = NVTX_MESSAGE_TYPE_ASCII;
    what.message.ascii = name;
    nvtxDomainRangePushEx(detail::nvtx_domain(), &what);
  }
  /// "forward 3": of the name its first 40 characters.
  nvtx_range(char const* name, std::optional<std::int64_t> number) : nvtx_range(text(name, number).data()) {}
  nvtx_range(nvtx_range const&) = delete;
  nvtx_range& operator=(nvtx_range const&) = delete;
  ~nvtx_range() { nvtxDomainRangePop(detail::nvtx_domain()); }

 private:
  static std::array<char, 64> text(char const* name, std::optional<std::int64_t> number) {
    std::array<char, 64> out{};
    char* at = out.data();
    while (*name != 0 && at != out.data() + 40) *at++ = *name++;
    if (number) {
      *at++ = ' ';
      std::to_chars(at, out.data() + out.size() - 1, *number);
    }
    return out;
  }
};

}  // namespace heddle::cuda
