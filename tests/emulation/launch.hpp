// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "block.hpp"

namespace heddle::emulation {

/// Runs a kernel, block after block, before it returns.
template <class Kernel, class... Arguments>
void launch(std::string const& name, Kernel kernel, dim3 grid, dim3 shape, Arguments const&... arguments) {
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block one(name, grid, shape, {x, y, z});
        one.run([&] { kernel(arguments...); });
      }
}

}  // namespace heddle::emulation
