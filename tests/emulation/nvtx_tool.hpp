// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cstdint>
#include <heddle/backend/cuda/nvtx.hpp>
#include <string>
#include <vector>

/// A tool that is linked into the program, as NVTX's own headers foresee it: `seen` has what it was told. The first
/// range of a process looks for tools, so that `attach` is given before, or nothing is seen.
namespace heddle::emulation::nvtx_tool {

inline std::vector<std::string> seen;

inline ::nvtxDomainHandle_t NVTX_API create_domain(char const* name) {
  seen.push_back(std::string("domain ") + name);
  return reinterpret_cast<::nvtxDomainHandle_t>(&seen);
}
inline int NVTX_API push(::nvtxDomainHandle_t domain, ::nvtxEventAttributes_t const* what) {
  CHECK(static_cast<void*>(domain) == static_cast<void*>(&seen));
  CHECK(what->messageType == NVTX_MESSAGE_TYPE_ASCII);
  seen.push_back(std::string("push ") + what->message.ascii);
  return 0;
}
inline int NVTX_API pop(::nvtxDomainHandle_t) {
  seen.emplace_back("pop");
  return 0;
}

inline int NVTX_API attach(NvtxGetExportTableFunc_t table_of) {
  auto const* const callbacks = static_cast<NvtxExportTableCallbacks const*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(create_domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(push);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(pop);
  return 1;
}

}  // namespace heddle::emulation::nvtx_tool
