// SPDX-License-Identifier: Apache-2.0
#include "launch.hpp"

#include "block.hpp"

namespace heddle::emulation {

std::string kernel_of(std::string_view name) {
  std::string_view const before = "Kernel = ", space = "heddle::kernels::";
  name.remove_prefix(name.find(before) + before.size());
  name.remove_suffix(name.size() - name.rfind(']'));
  if (name.starts_with('&')) name.remove_prefix(1);
  if (name.starts_with(space)) name.remove_prefix(space.size());
  return std::string(name);
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

void run_grid(std::string const& name, dim3 grid, dim3 shape, std::function<void()> const& body) {
  if (grid.x == 0 || grid.x > 0x7FFFFFFFU || grid.y == 0 || grid.y > 0xFFFFU || grid.z == 0 || grid.z > 0xFFFFU)
    throw fault(name + ": a grid of (" + std::to_string(grid.x) + ", " + std::to_string(grid.y) + ", " +
                std::to_string(grid.z) + ") blocks; CUDA takes 1 to (2147483647, 65535, 65535)");
  if (unsigned const made = threads_of(name), has = shape.x * shape.y * shape.z; made != 0 && made != has)
    throw fault(name + ": a block of " + std::to_string(has) + " threads, of a kernel that is made for " +
                std::to_string(made));
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block one(name, grid, shape, {x, y, z});
        one.run(body);
      }
}

}  // namespace heddle::emulation
