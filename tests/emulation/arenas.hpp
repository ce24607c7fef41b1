// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>

#include "session.hpp"

namespace heddle::emulation {

/// What the trainers of all ranks allocate on the device that they share is what they say. Collective.
template <class Trainer, class Rank>
void check_arenas(Rank& rank) {
  static std::size_t before = 0;
  static std::atomic<std::size_t> counted{0};
  auto& world = rank.world();
  world.barrier();
  if (rank.rank() == 0) {
    before = usage_now().device_bytes;
    counted = 0;
  }
  world.barrier();
  Trainer const one(rank);
  counted += one.allocated().total() + one.steering_bytes();
  world.barrier();
  if (rank.rank() == 0) CHECK(usage_now().device_bytes - before == counted);
  world.barrier();
}

}  // namespace heddle::emulation
