// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <string>
#include <thread>
#include <vector>

#include "backend.hpp"

namespace device_memory_cpp {

using namespace heddle;
using cuda::device_memory;
using emulation::on_device;

template <class T>
std::vector<T> counted(std::size_t n, int first) {
  std::vector<T> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<T>(first + static_cast<int>(i));
  return all;
}

template <class T>
bool same(std::vector<T> const& a, std::vector<T> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return static_cast<double>(x) == static_cast<double>(y); });
}

template <class T>
void check_flat() {
  for (std::size_t const n : {0U, 1U, 37U}) {
    CAPTURE(n);
    std::vector<T> const a = counted<T>(n, 1), b = counted<T>(n, -50);
    on_device<T> const x(a), y(b), z(b);
    device_memory::add(x.read(), y.data(), n);
    device_memory::copy(x.read(), z.data(), n);
    std::vector<T> sum = b;
    host_memory::add(a.data(), sum.data(), n);
    CHECK(y.values() == sum);
    CHECK(z.values() == a);
    device_memory::copy(z.read(), z.data(), n);
    CHECK(z.values() == a);
    device_memory::clear(z.data(), n);
    CHECK(z.values() == std::vector<T>(n));
  }
}

template <class T>
void check_blocks(block_view const& v) {
  CAPTURE(v.outer);
  CAPTURE(v.extent);
  CAPTURE(v.inner);
  CAPTURE(v.ways);
  std::size_t const size = v.outer * v.extent * v.inner, packed = v.ways * v.outer * v.width(),
                    one = v.outer * v.width();
  std::vector<T> const tensor = counted<T>(size, 1);
  std::vector<T> front(packed), back(size);
  host_memory::blocks_to_front(v, tensor.data(), front.data());
  host_memory::blocks_from_front(v, front.data(), back.data());
  on_device<T> const in(tensor), to(std::vector<T>(packed, T(-1))), from(std::vector<T>(size, T(-1)));
  device_memory::blocks_to_front(v, in.read(), to.data());
  CHECK(to.values() == front);
  device_memory::blocks_from_front(v, to.read(), from.data());
  CHECK(from.values() == back);
  for (std::size_t w = 0; w < v.ways; ++w) {
    CAPTURE(w);
    std::vector<T> block(one), whole = tensor;
    whole.resize(size > one ? size : one);
    on_device<T> const apart(block), place(whole);
    host_memory::block_of(v, w, tensor.data(), block.data());
    device_memory::block_of(v, w, in.read(), apart.data());
    CHECK(apart.values() == block);
    device_memory::block_of(v, w, place.read(), place.data());
    std::vector<T> moved = place.values();
    moved.resize(one);
    CHECK(moved == block);
  }
}

/// From one type to another.
template <class From, class To>
void check_cast() {
  std::size_t const n = 37;
  std::vector<float> thirds(n);
  for (std::size_t i = 0; i < n; ++i) thirds[i] = static_cast<float>(i) / 3;
  std::vector<From> const a(thirds.begin(), thirds.end());
  std::vector<To> copied(n), sum(n, To(1.5F));
  on_device<From> const x(a);
  on_device<To> const y(copied), z(sum);
  host_memory::copy(a.data(), copied.data(), n);
  host_memory::add(a.data(), sum.data(), n);
  device_memory::copy(x.read(), y.data(), n);
  device_memory::add(x.read(), z.data(), n);
  CHECK(same(y.values(), copied));
  CHECK(same(z.values(), sum));
}

template <class Own, class T>
void check_shares() {
  // Rows in three parts, columns in two: 7 x 4 in shares of 3 x 2.
  scattering s{};
  s.rank = 2;
  s.whole = {7, 4};
  s.share = {3, 2};
  s.count = 2;
  s.dim = {0, 1};
  s.ways = {3, 2};
  s.all_ways = 6;
  s.size = 6;
  std::vector<Own> const tensor = counted<Own>(28, 1);
  for (std::size_t const begin : {0U, 1U})
    for (std::size_t const count : {std::size_t{0}, s.size - begin}) {
      CAPTURE(begin);
      CAPTURE(count);
      std::size_t const stride = 8;
      std::vector<T> packed(s.all_ways * stride, T(-7));
      on_device<Own> const in(tensor);
      on_device<T> const travels(packed);
      host_memory::pack_shares(s, tensor.data(), begin, count, packed.data(), stride);
      device_memory::pack_shares(s, in.read(), begin, count, travels.data(), stride);
      CHECK(same(travels.values(), packed));
      for (bool const adds : {false, true}) {
        std::vector<Own> expected = counted<Own>(28, 100);
        on_device<Own> const out(expected);
        host_memory::unpack_shares(s, packed.data(), stride, begin, count, expected.data(), adds);
        device_memory::unpack_shares(s, travels.read(), stride, begin, count, out.data(), adds);
        CHECK(same(out.values(), expected));
      }
    }
}

template <class T>
void check_moves() {
  check_blocks<T>({3, 4, 5, 2});
  check_blocks<T>({2, 3, 3, 2});  // padding, and a row that moves onto a part of itself
  check_blocks<T>({1, 2, 8, 4});  // blocks of padding alone
  check_blocks<T>({5, 120, 1, 2});
  check_blocks<T>({0, 2, 2, 2});
}

}  // namespace device_memory_cpp

using namespace device_memory_cpp;

TEST_CASE("device memory does what host memory does") {
  emulation::on_every_device([] {
    check_flat<float>();
    check_flat<double>();
    check_moves<float>();
    check_moves<double>();
    check_moves<std::int32_t>();
    check_shares<float, float>();
    check_shares<double, double>();
    check_shares<float, __nv_bfloat16>();
    check_shares<__half, float>();
    check_cast<float, __nv_bfloat16>();
    check_cast<__half, float>();
    check_cast<double, float>();
  });
}
TEST_CASE("an execution is of its thread, and scopes nest") {
  emulation::session const here({.devices = 2});
  CHECK(emulation::has(emulation::failure_of([] { (void)cuda::execution::current(); }), "cuda::execution_scope"));
  cuda::execution first(0), second(1);
  {
    cuda::execution_scope const outer(first);
    CHECK(cuda::current_device() == 0);
    {
      cuda::execution_scope const inner(second);
      CHECK(&cuda::execution::current() == &second);
      CHECK(cuda::current_device() == 1);
    }
    CHECK(&cuda::execution::current() == &first);
    CHECK(cuda::current_device() == 0);
    std::string other;
    std::thread([&] { other = emulation::failure_of([] { (void)cuda::execution::current(); }); }).join();
    CHECK(emulation::has(other, "has no execution"));
  }
  CHECK(emulation::has(emulation::failure_of([] { device_memory::clear<float>(nullptr, 1); }), "has no execution"));
}
TEST_CASE("an execution on a device that is not there says so") {
  emulation::session const here;
  CHECK(emulation::has(emulation::failure_of([] { cuda::execution const one(1); }), "cudaSetDevice(1)"));
}
