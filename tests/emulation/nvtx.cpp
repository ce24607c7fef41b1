// SPDX-License-Identifier: Apache-2.0
// A tool that is linked into the program sees the ranges.
#include <doctest/doctest.h>

#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/backend/cuda/nvtx.hpp>
#include <string>
#include <vector>

#include "nvtx_tool.hpp"

namespace {

namespace nvtx_tool = heddle::emulation::nvtx_tool;

TEST_CASE("ranges are pushed and popped in heddle's domain, with their names and numbers") {
  InitializeInjectionNvtx2_fnptr = nvtx_tool::attach;
  {
    heddle::cuda::nvtx_range const step("step");
    heddle::cuda::device_memory::profiled_range const forward("forward", 3), none("reduce", {}),
        least("a name that is longer than what there is room for in a range", INT64_MIN + 1);
  }
  CHECK(nvtx_tool::seen ==
        std::vector<std::string>{"domain heddle", "push step", "push forward 3", "push reduce",
                                 "push a name that is longer than what there is -9223372036854775807", "pop", "pop",
                                 "pop", "pop"});
}

}  // namespace
