// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/backend/cuda/execution.hpp>
#include <vector>

#include "session.hpp"

namespace heddle::emulation {

/// An array on the device, in the execution of the calling thread, which begins with what the host has.
template <class T>
class on_device {
 public:
  explicit on_device(std::vector<T> const& values) : room_(values.size() + 1) {
    cuda::device_memory::from_host(values.data(), room_.data(), values.size());
  }
  [[nodiscard]] T* data() const { return room_.data(); }
  [[nodiscard]] T const* read() const { return room_.data(); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> out(room_.size() - 1);
    cuda::device_memory::to_host(read(), out.data(), out.size());
    return out;
  }

 private:
  cuda::device_arena<T> room_;  // one element more, so that an empty one has an address
};

/// `body()` in every mode, with an execution.
template <class Body>
void on_every_device(Body const& body) {
  in_every_mode([&] {
    cuda::execution one(0);
    cuda::execution_scope const scope(one);
    body();
  });
}

}  // namespace heddle::emulation
