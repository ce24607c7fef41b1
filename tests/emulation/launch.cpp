// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "block.hpp"

namespace heddle::emulation {

std::string kernel_of(std::type_info const& tag) {
  std::unique_ptr<char, void (*)(void*)> const text(abi::__cxa_demangle(tag.name(), nullptr, nullptr, nullptr),
                                                    std::free);
  // "…tag<&(void heddle::kernels::rotary<float, 64, 32>(float const*, …))>", and "void" only of a template.
  std::string name = text == nullptr ? tag.name() : text.get();
  name.erase(0, name.find("<&(") + 3);
  for (char const* const before : {"void ", "(anonymous namespace)::", "heddle::kernels::"})
    if (name.starts_with(before)) name.erase(0, std::strlen(before));
  return name.substr(0, name.find('('));
}

namespace {
/// The last template argument, or 0 if that is no number.
unsigned threads_of(std::string_view name) {
  if (!name.ends_with('>')) return 0;
  name.remove_suffix(1);
  unsigned threads = 0;
  for (char const c : name.substr(name.find_last_of("<, ") + 1)) {
    if (c < '0' || c > '9') return 0;
    threads = threads * 10 + static_cast<unsigned>(c - '0');
  }
  return threads;
}
}  // namespace

void run_grid(std::string const& name, dim3 grid, dim3 shape, std::function<void()> const& body,
              std::size_t dynamic_bytes) {
  if (grid.x == 0 || grid.x > 0x7FFFFFFFU || grid.y == 0 || grid.y > 0xFFFFU || grid.z == 0 || grid.z > 0xFFFFU)
    throw fault(name + ": a grid of (" + std::to_string(grid.x) + ", " + std::to_string(grid.y) + ", " +
                std::to_string(grid.z) + ") blocks; CUDA takes 1 to (2147483647, 65535, 65535)");
  if (unsigned const made = threads_of(name), has = shape.x * shape.y * shape.z; made != 0 && made != has)
    throw fault(name + ": a block of " + std::to_string(has) + " threads, of a kernel that is made for " +
                std::to_string(made));
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block one(name, grid, shape, {x, y, z}, dynamic_bytes);
        one.run(body);
      }
}

}  // namespace heddle::emulation
