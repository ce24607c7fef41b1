// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cast/cast.cuh>
#include <cstddef>
#include <heddle/backend/cuda/graph.hpp>
#include <heddle/backend/cuda/grid.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/nvtx.hpp>
#include <heddle/tensor/block_view.hpp>
#include <heddle/tensor/scattering.hpp>
#include <pointwise/pointwise.cuh>
#include <redistribution/blocks.cuh>
#include <redistribution/shares.cuh>
#include <span>

namespace heddle::cuda {

/// `host_memory`'s twin: where the numbers of a rank lie that computes on a device. The members are the same, and each
/// does what it says as the next work of the calling thread's compute stream; `from_host`, `to_host` and
/// `mirror::download` alone wait for it. Pointers are to device memory, but for the host's side of those two.
struct device_memory {
  template <class T>
  using arena = device_arena<T>;
  using profiled_range = nvtx_range;

  template <class T>
  static void copy(T const* from, T* to, std::size_t n) {
    if (from != to) copy_on_device<T>(compute(), {to, n}, {from, n});
  }
  template <class T>
  static void clear(T* to, std::size_t n) {
    fill_zero<T>(compute(), {to, n});
  }
  /// From one type of number to another.
  template <class From, class To>
  static void copy(From const* from, To* to, std::size_t n) {
    detail::run_packs<kernels::cast<detail::plain_t<From>, detail::plain_t<To>, detail::threads>,
                      kernels::cast_unit_t<From, To>>(n, reads(from, n), writes(to, n), n);
  }
  template <class From, class To>
  static void add(From const* from, To* to, std::size_t n) {
    detail::run_packs<kernels::add_cast<detail::plain_t<From>, detail::plain_t<To>, detail::threads>,
                      kernels::cast_unit_t<From, To>>(n, reads(from, n), writes(to, n), n);
  }

  template <class T>
  class mirror {
   public:
    explicit mirror(std::size_t elements) : host_(elements), device_(elements) {}
    [[nodiscard]] T* host() const { return host_.data(); }
    [[nodiscard]] T* data() const { return device_.data(); }
    [[nodiscard]] std::size_t bytes() const { return device_.bytes(); }
    void upload() const { copy_to_device<T>(compute(), {data(), device_.size()}, {host(), host_.size()}); }
    void download() const {
      copy_to_host<T>(compute(), {host(), host_.size()}, {data(), device_.size()});
      compute().synchronize();
    }

   private:
    pinned_arena<T> host_;
    device_arena<T> device_;
  };

  /// What `work()` gives to the compute stream, given again by each `replay()` as one graph; on the host there is no
  /// such member. It is as `capture` has it: `work` waits for nothing, and its kernels keep their arguments.
  class recording {
   public:
    template <class Work>
    explicit recording(Work const& work) : graph_(capture(compute(), work)) {}
    void replay() const { graph_.replay(compute()); }

   private:
    executable_graph graph_;
  };

  template <class T>
  static void from_host(T const* from, T* to, std::size_t n) {
    copy_to_device<T>(compute(), {to, n}, {from, n});
    compute().synchronize();  // of pinned memory the copy may still be under way
  }
  template <class T>
  static void to_host(T const* from, T* to, std::size_t n) {
    copy_to_host<T>(compute(), {to, n}, {from, n});
    compute().synchronize();
  }

  template <class T>
  static void blocks_to_front(block_view const& v, T const* in, T* out) {
    std::size_t const n = v.ways * v.outer * v.width();
    detail::run_packs<kernels::blocks_to_front<detail::plain_t<T>, detail::threads>, T>(
        n, reads(in, tensor_of(v)), writes(out, n), shape_of(v, 0), n);
  }
  template <class T>
  static void blocks_from_front(block_view const& v, T const* in, T* out) {
    std::size_t const n = v.ways * v.outer * v.width();
    detail::run_packs<kernels::blocks_from_front<detail::plain_t<T>, detail::threads>, T>(
        n, reads(in, n), writes(out, tensor_of(v)), shape_of(v, 0), n);
  }
  template <class T>
  static void block_of(block_view const& v, std::size_t w, T const* in, T* out) {
    std::size_t const n = v.outer * v.width();
    if (n == 0) return;
    if (in == out)
      detail::run<kernels::block_in_place<detail::plain_t<T>, detail::threads>>(
          1, writes(out, tensor_of(v) > n ? tensor_of(v) : n), shape_of(v, w), n);
    else
      detail::run_packs<kernels::blocks_to_front<detail::plain_t<T>, detail::threads>, T>(
          n, reads(in, tensor_of(v)), writes(out, n), shape_of(v, w), n);
  }

  template <class From, class To>
  static void pack_shares(scattering const& s, From const* tensor, std::size_t begin, std::size_t count, To* to,
                          std::size_t stride) {
    if (count == 0) return;
    detail::run<kernels::pack_shares<detail::plain_t<From>, detail::plain_t<To>, detail::threads>>(
        share_grid<From, To>(s, count), reads(tensor, tensor_of(s)), kernels::share_map::of(s), begin, count,
        writes(to, (s.all_ways - 1) * stride + count), stride);
  }
  template <class From, class To>
  static void unpack_shares(scattering const& s, From const* from, std::size_t stride, std::size_t begin,
                            std::size_t count, To* tensor, bool adds) {
    if (count == 0) return;
    adds ? unpack<true>(s, from, stride, begin, count, tensor) : unpack<false>(s, from, stride, begin, count, tensor);
  }

 private:
  static stream const& compute() { return execution::current().compute(); }

  static std::size_t tensor_of(block_view const& v) { return v.outer * v.extent * v.inner; }
  static std::size_t tensor_of(scattering const& s) {
    std::size_t size = 1;
    for (std::size_t k = 0; k < s.rank; ++k) size *= s.whole[k];
    return size;
  }
  static kernels::blocks_shape shape_of(block_view const& v, std::size_t first) {
    using detail::signed_of;
    return kernels::blocks_of(signed_of(v.outer), signed_of(v.extent), signed_of(v.inner), signed_of(v.ways),
                              signed_of(first));
  }
  template <class From, class To>
  static dim3 share_grid(scattering const& s, std::size_t count) {
    return kernels::share_grid<kernels::cast_unit_t<From, To>, detail::threads>(
        detail::signed_of(count), detail::int_of(s.all_ways), detail::most_blocks);
  }
  template <bool Adds, class From, class To>
  static void unpack(scattering const& s, From const* from, std::size_t stride, std::size_t begin, std::size_t count,
                     To* tensor) {
    detail::run<kernels::unpack_shares<detail::plain_t<From>, detail::plain_t<To>, Adds, detail::threads>>(
        share_grid<From, To>(s, count), reads(from, (s.all_ways - 1) * stride + count), kernels::share_map::of(s),
        begin, count, writes(tensor, tensor_of(s)), stride);
  }
};

}  // namespace heddle::cuda
