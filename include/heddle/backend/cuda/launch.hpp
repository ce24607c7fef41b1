// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <heddle/backend/cuda/buffer.hpp>
#include <heddle/backend/cuda/status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <heddle/error.hpp>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#if defined(HEDDLE_EMULATED_DEVICE)
#include <announce.hpp>  // of tests/emulation, which is on the include path then
#endif

namespace heddle::cuda {

/// Blocks, their threads, and the bytes of shared memory that each has beside what its kernel declares.
struct launch_shape {
  dim3 grid{};
  dim3 block{};
  std::size_t shared_bytes = 0;
  source_place place = source_place::here();  ///< where it is written, for errors
};

namespace detail {

template <class T>
constexpr T const& kernel_argument(T const& value) {
  return value;
}
template <class T>
constexpr T* kernel_argument(buffer<T> const& value) {
  return value.data;
}
template <class A>
constexpr A const& kernel_argument(carrier<A> const& value) {
  return value.value;
}

template <class... Parameters>
constexpr std::size_t parameters_of(void (*)(Parameters...)) {
  return sizeof...(Parameters);
}

/// As the kernel's parameter; an integer only if that holds it.
template <class Parameter, class Argument>
constexpr Parameter converted(Argument const& value) {
  // Of one byte are bool and characters, which std::in_range does not take.
  if constexpr (std::is_integral_v<Parameter> && std::is_integral_v<Argument> && sizeof(Parameter) > 1 &&
                sizeof(Argument) > 1)
    if (!std::in_range<Parameter>(value))
      throw error("launch<Kernel>: an argument of " + std::to_string(value) + " is too large for the parameter's " +
                  std::to_string(sizeof(Parameter)) + " bytes; launch it on a part, or widen the parameter");
  return static_cast<Parameter>(value);
}

/// More dynamic shared memory than this has to be asked for, kernel by kernel.
inline constexpr std::size_t shared_bytes_of_every_kernel = std::size_t{48} * 1024;

/// A type whose name has the kernel's, with all template arguments.
template <auto Kernel>
struct kernel_tag {};

/// "rotary<float, 64, 256>", with its namespaces, of a `kernel_tag`.
inline std::string kernel_name(std::type_info const& tag) {
  std::unique_ptr<char, void (*)(void*)> const text(abi::__cxa_demangle(tag.name(), nullptr, nullptr, nullptr),
                                                    std::free);
  std::string whole = text == nullptr ? tag.name() : text.get();
  // "…kernel_tag<&(void kernels::rotary<float, 64, 256>(float const*, …))>", and "void" only of a template
  std::size_t const begin = whole.find("<&");
  if (begin == std::string::npos) return whole;
  whole.erase(0, begin + 2);
  for (char const* const before : {"(", "void ", "(anonymous namespace)::"})
    if (whole.starts_with(before)) whole.erase(0, std::strlen(before));
  return whole.substr(0, whole.find('('));
}

inline std::string launch_text(std::string const& kernel, launch_shape const& shape) {
  auto const text = [](dim3 const& d) {
    return '(' + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ')';
  };
  return "a launch of " + kernel + " in " + text(shape.grid) + " blocks of " + text(shape.block) + " threads with " +
         std::to_string(shape.shared_bytes) + " bytes of dynamic shared memory";
}

/// What of a launch is the same for all kernels, compiled once.
inline void launch_kernel(void const* kernel, std::type_info const& tag, launch_shape const& shape, stream_ref on,
                          void** arguments) {
  auto const text = [&] { return launch_text(kernel_name(tag), shape); };
  if (shape.shared_bytes > shared_bytes_of_every_kernel)
    check(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, converted<int>(shape.shared_bytes)),
        [&] { return "cudaFuncSetAttribute for " + text(); }, shape.place);
  check(cudaLaunchKernel(kernel, shape.grid, shape.block, arguments, shape.shared_bytes, on.get()), text, shape.place);
}

/// As parameters of a function, the kernel's arguments have addresses, which the runtime asks for.
template <auto Kernel, class... Parameters>
void launch_values(launch_shape const& shape, stream_ref on, Parameters... values) {
  void* arguments[] = {static_cast<void*>(&values)..., nullptr};
  launch_kernel(reinterpret_cast<void const*>(Kernel), typeid(kernel_tag<Kernel>), shape, on, arguments);
}

template <auto Kernel, class... Parameters, class... Arguments>
void launch(void (*)(Parameters...), launch_shape const& shape, stream_ref on, Arguments const&... arguments) {
  static_assert((std::is_convertible_v<decltype(kernel_argument(arguments)), Parameters> && ...),
                "launch<Kernel>: each argument must convert to the parameter of 'Kernel' at its place");
#if defined(HEDDLE_EMULATED_DEVICE)
  emulation::announce<Kernel, Parameters...>(arguments...);
#endif
  launch_values<Kernel, Parameters...>(shape, on, converted<Parameters>(kernel_argument(arguments))...);
}

}  // namespace detail

/// Launches a kernel on a stream, with arguments that convert to its parameters; they are copied before this returns.
/// An error of the launch is thrown here, one of the kernel by a later call that waits for it.
template <auto Kernel, class... Arguments>
void launch(launch_shape const& shape, stream_ref on, Arguments const&... arguments) {
  static_assert(detail::parameters_of(Kernel) == sizeof...(Arguments),
                "launch<Kernel>: there must be one argument for each parameter of 'Kernel'");
  if constexpr (detail::parameters_of(Kernel) == sizeof...(Arguments))
    detail::launch<Kernel>(Kernel, shape, on, arguments...);
}

}  // namespace heddle::cuda
