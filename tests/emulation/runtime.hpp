// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

namespace heddle::emulation {

/// When work that streams are given runs: at the call; or not before somebody waits for it, and then in an order that
/// nothing but streams, events and waiting decides.
enum class execution : std::uint8_t { eager, delayed };

/// What the runtime finds.
struct device_options {
  execution mode = execution::eager;
  std::uint64_t seed = 1;  ///< of the order in delayed mode
  int devices = 1;
  int driver = CUDART_VERSION;               ///< the newest toolkit that it serves; 0 where there is no driver
  std::size_t bytes = std::size_t{1} << 30;  ///< of each device
  int capability = 90;                       ///< compute capability, times ten
  /// Whether a kernel has only the memory that its launch names, if that names any: all other of devices is filled with
  /// what makes NaN meanwhile, and must stay so, as must what the launch names as read. Costs three passes over all
  /// memory.
  bool only_named = false;
  /// That many waits of streams for events work; the next one, counted over all streams, does nothing: for tests that
  /// demand that each is missed. None is left out by default.
  std::size_t waits_before_one_is_dropped = std::size_t(-1);
  /// How long the host waits for what other threads have yet to bring to a collective, before the devices are lost.
  std::chrono::milliseconds patience = std::chrono::seconds(20);
};

/// What there is that has not been freed or destroyed.
struct usage {
  std::size_t allocations = 0, device_bytes = 0, pinned_bytes = 0;  ///< bytes of the calling thread's device
  std::size_t streams = 0, events = 0, graphs = 0;
};

/// Begins anew, with devices that have nothing. No other thread may use them meanwhile.
void reset_devices(device_options const& options = {});
[[nodiscard]] usage usage_now();
/// Runs all that is left. The first fault since the last call, by which a device is lost, or an empty text; no device
/// is lost after it.
std::string take_fault();
/// Copies that made the host wait since `reset_devices`, because its memory was not pinned.
[[nodiscard]] std::size_t waiting_copies();
/// Waits of streams, for events that had been recorded, since `reset_devices`.
[[nodiscard]] std::size_t stream_waits();

}  // namespace heddle::emulation
