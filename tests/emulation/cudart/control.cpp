// SPDX-License-Identifier: Apache-2.0
#include "../runtime.hpp"

#include <mutex>

#include "machine.hpp"

namespace heddle::emulation {

namespace {
std::unique_lock<std::mutex> alone() { return std::unique_lock<std::mutex>(machine::get().mutex); }
}  // namespace

void reset_devices(device_options const& options) {
  auto const lock = alone();
  machine::get().reset(options);
}
usage usage_now() {
  auto const lock = alone();
  return machine::get().used();
}
std::string take_fault() {
  auto const lock = alone();
  return machine::get().take_fault();
}
std::size_t waiting_copies() {
  auto const lock = alone();
  return machine::get().waiting_copies;
}
std::size_t stream_waits() {
  auto const lock = alone();
  return machine::get().stream_waits;
}

}  // namespace heddle::emulation
