// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <span>
#include <string>
#include <vector>

#include "runtime.hpp"

namespace heddle::emulation {

/// New devices for one test. At its end nothing is left, and no fault that the test has not taken.
class session {
 public:
  explicit session(device_options const& options = {}) { reset_devices(options); }
  session(session const&) = delete;
  session& operator=(session const&) = delete;
  ~session() {
    CHECK(take_fault() == "");
    usage const left = usage_now();
    CHECK(left.allocations == 0);
    CHECK(left.streams == 0);
    CHECK(left.events == 0);
    CHECK(left.graphs == 0);
    reset_devices();
  }
};

/// `body()` with devices that run work at once, and with some that delay it; of both, some let kernels use only what
/// their launches name.
template <class Body>
void in_every_mode(Body const& body) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    session const here(
        {.mode = seed < 2 ? execution::eager : execution::delayed, .seed = seed, .only_named = seed % 2 == 1});
    body();
  }
}

/// The text of what `body()` throws, and the device as new.
template <class Body>
std::string failure_of(Body const& body) {
  std::string text;
  try {
    body();
  } catch (heddle::error const& one) {
    text = one.what();
  }
  (void)take_fault();
  return text;
}
inline bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

template <class T>
std::span<T> all_of(cuda::device_arena<T> const& arena) {
  return {arena.data(), arena.size()};
}
template <class T>
std::span<T> all_of(cuda::pinned_arena<T> const& arena) {
  return {arena.data(), arena.size()};
}
template <class T>
std::vector<T> on_host(cuda::stream_ref on, cuda::device_arena<T> const& arena) {
  cuda::pinned_arena<T> const host(arena.size());
  cuda::copy_to_host<T>(on, all_of(host), all_of(arena));
  on.synchronize();
  return {host.data(), host.data() + host.size()};
}
template <class T>
void fill_from(cuda::stream_ref on, cuda::device_arena<T> const& arena, std::vector<T> const& values) {
  cuda::copy_to_device<T>(on, all_of(arena), std::span<T const>(values));
}

}  // namespace heddle::emulation
