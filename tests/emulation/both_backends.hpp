// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda.hpp>
#include <heddle/backend/host.hpp>
#include <type_traits>
#include <vector>

#include "backend.hpp"
#include "values.hpp"

namespace heddle::emulation {

/// An array where backend B computes, `offset` elements behind the beginning of its memory. Its elements go in and come
/// out as `wide<T>`.
template <class B, class T>
class array_of {
 public:
  explicit array_of(std::vector<wide<T>> const& values, std::size_t offset = 0)
      : offset_(offset), size_(values.size()), room_(values.size() + offset + 1) {
    std::vector<T> own;
    for (wide<T> const one : values) own.push_back(static_cast<T>(one));
    B::memory::from_host(own.data(), data(), size_);
  }
  /// Zeros.
  explicit array_of(std::size_t n, std::size_t offset = 0) : array_of(std::vector<wide<T>>(n), offset) {}
  [[nodiscard]] T* data() const { return room_.data() + offset_; }
  [[nodiscard]] T const* read() const { return data(); }
  [[nodiscard]] std::vector<wide<T>> values() const {
    std::vector<T> own(size_);
    B::memory::to_host(read(), own.data(), size_);
    std::vector<wide<T>> out;
    for (T const one : own) out.push_back(static_cast<wide<T>>(one));
    return out;
  }

 private:
  std::size_t offset_, size_;
  typename B::memory::template arena<T> room_;
};

/// What a program left, array by array, of T or of what T is computed with in: within so many roundings there of the
/// largest element. Where T is narrower and `narrow_roundings` is not 0, what the two backends compute with may have
/// been rounded to T that many times before, or in another place. `terms` is the size of what elements are differences
/// of, where these may be nothing: the host's compiler fuses products with sums, and leaves their roundings.
template <class T>
struct outcome {
  struct one {
    char const* name;
    std::vector<wide<T>> values;
    double ulps;
    bool narrow = false;
    double narrow_roundings = 0;
    double terms = 0;
  };
  std::vector<one> arrays;

  template <class B, class U>
  void leave(char const* name, array_of<B, U> const& array, double ulps = 0, double narrow_roundings = 0,
             double terms = 0) {
    arrays.push_back({name, array.values(), ulps, !std::is_same_v<U, wide<T>>, narrow_roundings, terms});
  }
};

/// Two results that were rounded to T: they are a step apart where what was rounded is near the middle of one, and then
/// differ by a rounding each. Of numbers whose difference is far below a step few are: if both round alike, all but an
/// eighth are the same (of tiny arrays, but one).
template <class T>
void check_rounded(typename outcome<T>::one const& device, std::vector<float> const& host) {
  REQUIRE(device.values.size() == host.size());
  double const most = largest(host), epsilon = rounding<T>::epsilon;
  double const bound = device.ulps * rounding<float>::epsilon * most + device.narrow_roundings * epsilon * most;
  bool const exact = bound == 0;
  std::size_t wrong = 0, first = 0, apart = 0;
  for (std::size_t i = host.size(); i-- > 0;) {
    double const g = static_cast<double>(device.values[i]), e = static_cast<double>(host[i]);
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    ++apart;
    double const step = epsilon * std::fmax(std::fabs(g), std::fabs(e)) + rounding<T>::least;
    if (!exact && std::fabs(g - e) <= bound + step) continue;
    ++wrong;
    first = i;
  }
  CAPTURE(first);
  CAPTURE(apart);
  if (wrong != 0) {
    CAPTURE(device.values[first]);
    CAPTURE(host[first]);
    CHECK(wrong == 0);
  }
  if (device.narrow_roundings == 0) CHECK(apart <= host.size() / 8 + 1);
}

template <class T, class OnHost>
void check_alike(outcome<T> const& device, outcome<OnHost> const& host) {
  REQUIRE(device.arrays.size() == host.arrays.size());
  for (std::size_t i = 0; i < host.arrays.size(); ++i) {
    CAPTURE(host.arrays[i].name);
    if constexpr (!std::is_same_v<T, wide<T>>)
      if (device.arrays[i].narrow) {
        check_rounded<T>(device.arrays[i], host.arrays[i].values);
        continue;
      }
    check_near<wide<T>>(device.arrays[i].values, host.arrays[i].values, host.arrays[i].ulps, host.arrays[i].terms);
  }
}

/// `program(backend, type, offset)`, which returns an outcome, must come to the same on both, with float and double,
/// aligned or not.
template <class Program>
void on_both_backends(Program const& program) {
  on_every_device([&] {
    for (std::size_t const offset : {0U, 1U}) {
      CAPTURE(offset);
      check_alike(program(cuda_backend{}, float{}, offset), program(host_backend{}, float{}, offset));
      check_alike(program(cuda_backend{}, double{}, offset), program(host_backend{}, double{}, offset));
    }
  });
}
/// The same with numbers of 16 bits. How streams' work is delayed does not depend on the type: two modes are enough.
template <class Program>
void with_narrow_numbers(Program const& program) {
  for (std::uint64_t const seed : {0U, 3U}) {
    CAPTURE(seed);
    session const here(
        {.mode = seed == 0 ? execution::eager : execution::delayed, .seed = seed, .only_named = seed != 0});
    cuda::execution one(0);
    cuda::execution_scope const scope(one);
    for (std::size_t const offset : {0U, 1U}) {
      CAPTURE(offset);
      check_alike(program(cuda_backend{}, __nv_bfloat16{}, offset), program(host_backend{}, host::bfloat16{}, offset));
      check_alike(program(cuda_backend{}, __half{}, offset), program(host_backend{}, host::float16{}, offset));
    }
  }
}

}  // namespace heddle::emulation
