// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <string>
#include <typeinfo>

#include "fault.hpp"

namespace heddle::emulation {

namespace detail {
/// A type whose name has a kernel's with its template arguments. (clang 14 leaves those out of __PRETTY_FUNCTION__.)
template <auto Kernel>
struct tag {};
}  // namespace detail

/// A kernel with its template arguments, "rotary<float, 64, 32>", of its `tag`.
std::string kernel_of(std::type_info const& tag);

/// Runs `body` on every thread of the grid, block after block. What CUDA refuses is a fault here, too. `kernel` names
/// it, and says for which block size it is made: by its last template argument, if that is a number.
void run_grid(std::string const& kernel, dim3 grid, dim3 shape, std::function<void()> const& body,
              std::size_t dynamic_bytes = 0);

/// Dynamic shared memory of a block.
struct dynamic_shared_bytes {
  std::size_t count = 0;
};

namespace detail {
/// For all kernels of one type.
template <class Kernel, class... Arguments>
[[gnu::noinline]] void run(std::type_info const& tag, Kernel kernel, dim3 grid, dim3 shape, std::size_t dynamic_bytes,
                           Arguments const&... arguments) {
  run_grid(
      kernel_of(tag), grid, shape, [&] { kernel(arguments...); }, dynamic_bytes);
}
}  // namespace detail

/// Runs a kernel before it returns.
template <auto Kernel, class... Arguments>
void launch(dim3 grid, dim3 shape, Arguments const&... arguments) {
  detail::run(typeid(detail::tag<Kernel>), Kernel, grid, shape, 0, arguments...);
}
template <auto Kernel, class... Arguments>
void launch(dim3 grid, dim3 shape, dynamic_shared_bytes dynamic, Arguments const&... arguments) {
  detail::run(typeid(detail::tag<Kernel>), Kernel, grid, shape, dynamic.count, arguments...);
}

}  // namespace heddle::emulation
