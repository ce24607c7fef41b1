// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cstddef>
#include <heddle/backend/cuda.hpp>
#include <heddle/backend/host.hpp>
#include <vector>

#include "backend.hpp"
#include "values.hpp"

namespace heddle::emulation {

/// An array where backend B computes, `offset` elements behind the beginning of its memory.
template <class B, class T>
class array_of {
 public:
  explicit array_of(std::vector<T> const& values, std::size_t offset = 0)
      : offset_(offset), size_(values.size()), room_(values.size() + offset + 1) {
    B::memory::from_host(values.data(), data(), size_);
  }
  /// Zeros.
  explicit array_of(std::size_t n, std::size_t offset = 0) : array_of(std::vector<T>(n), offset) {}
  [[nodiscard]] T* data() const { return room_.data() + offset_; }
  [[nodiscard]] T const* read() const { return data(); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> out(size_);
    B::memory::to_host(read(), out.data(), size_);
    return out;
  }

 private:
  std::size_t offset_, size_;
  typename B::memory::template arena<T> room_;
};

/// What a program left, array by array, within so many roundings of the largest element.
template <class T>
struct outcome {
  struct one {
    char const* name;
    std::vector<T> values;
    double ulps;
  };
  std::vector<one> arrays;

  template <class B>
  void leave(char const* name, array_of<B, T> const& array, double ulps = 0) {
    arrays.push_back({name, array.values(), ulps});
  }
};
template <class T>
void check_alike(outcome<T> const& device, outcome<T> const& host) {
  REQUIRE(device.arrays.size() == host.arrays.size());
  for (std::size_t i = 0; i < host.arrays.size(); ++i) {
    CAPTURE(host.arrays[i].name);
    check_near<T>(device.arrays[i].values, host.arrays[i].values, host.arrays[i].ulps);
  }
}

/// `program(backend, type, offset)`, which returns an outcome, must come to the same on both, with float and double,
/// aligned or not.
template <class Program>
void on_both_backends(Program const& program) {
  on_every_device([&] {
    for (std::size_t const offset : {0U, 1U}) {
      CAPTURE(offset);
      check_alike<float>(program(cuda_backend{}, float{}, offset), program(host_backend{}, float{}, offset));
      check_alike<double>(program(cuda_backend{}, double{}, offset), program(host_backend{}, double{}, offset));
    }
  });
}

}  // namespace heddle::emulation
