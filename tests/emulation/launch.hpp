// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <string_view>

#include "fault.hpp"

namespace heddle::emulation {

namespace detail {
template <auto Kernel>
constexpr char const* signature() {
  return __PRETTY_FUNCTION__;
}
}  // namespace detail

/// A kernel with its template arguments, as the compiler writes it: "rotary<float, 64, 32>" of a `signature`
/// "… [with auto Kernel = heddle::kernels::rotary<float, 64, 32>]".
std::string kernel_of(std::string_view signature);

/// Runs `body` on every thread of the grid, block after block. What CUDA refuses is a fault here, too. `kernel` names
/// it, and says for which block size it is made: by its last template argument, if that is a number.
void run_grid(std::string const& kernel, dim3 grid, dim3 shape, std::function<void()> const& body);

namespace detail {
/// For all kernels of one type.
template <class Kernel, class... Arguments>
[[gnu::noinline]] void run(char const* signature, Kernel kernel, dim3 grid, dim3 shape, Arguments const&... arguments) {
  run_grid(kernel_of(signature), grid, shape, [&] { kernel(arguments...); });
}
}  // namespace detail

/// Runs a kernel before it returns.
template <auto Kernel, class... Arguments>
void launch(dim3 grid, dim3 shape, Arguments const&... arguments) {
  detail::run(detail::signature<Kernel>(), Kernel, grid, shape, arguments...);
}

}  // namespace heddle::emulation
