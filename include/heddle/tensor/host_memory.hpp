// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <heddle/tensor/accumulation.hpp>
#include <heddle/tensor/arena.hpp>
#include <heddle/tensor/block_view.hpp>
#include <heddle/tensor/scattering.hpp>
#include <optional>

namespace heddle {

/// Where the numbers of a rank lie: memory that its thread reads and writes itself. What is moved without being
/// computed with goes through these members, so that all else (redistributions, buckets, the trainer) is the same code
/// where the numbers lie on a device; its memory has the same members, and does what they say in the order of its
/// stream.
///
/// A backend names its memory (`Backend::memory`), and a communicator that of its buffers, unless it is this one.
struct host_memory {
  /// One allocation, filled with zeros.
  template <class T>
  using arena = heddle::arena<T>;

  /// A part of the calling thread's time, by name and number, for the profiler of what computes there. The host has
  /// none.
  struct profiled_range {
    constexpr profiled_range(char const*, std::optional<std::int64_t>) {}
  };

  /// to[n] = from[n]; they may be the same, and do not overlap otherwise.
  template <class T>
  static void copy(T const* from, T* to, std::size_t n) {
    if (n != 0 && from != to) std::memcpy(static_cast<void*>(to), from, n * sizeof(T));
  }
  template <class T>
  static void clear(T* to, std::size_t n) {
    if (n != 0) std::memset(static_cast<void*>(to), 0, n * sizeof(T));
  }
  /// The same from one type of number to another: widened, or rounded.
  template <class From, class To>
  static void copy(From const* from, To* to, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<To>(static_cast<accumulation_t<From>>(from[i]));
  }
  /// to[n] += from[n], each sum rounded once; they do not overlap.
  template <class From, class To>
  static void add(From const* __restrict from, To* __restrict to, std::size_t n) {
    using A = accumulation_t<To>;
    for (std::size_t i = 0; i < n; ++i)
      to[i] = static_cast<To>(static_cast<A>(to[i]) + static_cast<A>(static_cast<accumulation_t<From>>(from[i])));
  }

  /// An array that the host writes before some work and reads after it, at `host()`; the work has it at `data()`. Here
  /// both are one. On a device `upload` is not waited for: the host's side belongs to it until `download`, or another
  /// call that waits, has returned.
  template <class T>
  class mirror {
   public:
    explicit mirror(std::size_t elements) : all_(elements) {}
    [[nodiscard]] T* host() const { return all_.data(); }
    [[nodiscard]] T* data() const { return all_.data(); }
    [[nodiscard]] std::size_t bytes() const { return all_.bytes(); }
    void upload() const {}
    void download() const {}

   private:
    arena<T> all_;
  };

  // Between this memory and the host's. On a device they wait for what was asked for before.
  template <class T>
  static void from_host(T const* from, T* to, std::size_t n) {
    copy(from, to, n);
  }
  template <class T>
  static void to_host(T const* from, T* to, std::size_t n) {
    copy(from, to, n);
  }

  /// [outer, extent, inner] → [ways, outer, ⌈extent/ways⌉, inner], padding set to zero: blocks of an inner dimension as
  /// the contiguous pieces that a collective exchanges.
  template <class T>
  static void blocks_to_front(block_view const& v, T const* in, T* out) {
    for (std::size_t w = 0; w < v.ways; ++w)
      for (std::size_t o = 0; o < v.outer; ++o) {
        T* const to = out + (w * v.outer + o) * v.width();
        copy(in + v.at(o, w), to, v.real(w));
        clear(to + v.real(w), v.width() - v.real(w));
      }
  }
  /// And back, without the padding.
  template <class T>
  static void blocks_from_front(block_view const& v, T const* in, T* out) {
    for (std::size_t w = 0; w < v.ways; ++w)
      for (std::size_t o = 0; o < v.outer; ++o) copy(in + (w * v.outer + o) * v.width(), out + v.at(o, w), v.real(w));
  }
  /// Block `w` alone, padding set to zero: [outer, ⌈extent/ways⌉, inner]. `out` may be `in`.
  template <class T>
  static void block_of(block_view const& v, std::size_t w, T const* in, T* out) {
    for (std::size_t o = 0; o < v.outer; ++o) {
      // In place rows move towards the front, and may overlap where they came from.
      if (std::size_t const real = v.real(w); real != 0)
        std::memmove(static_cast<void*>(out + o * v.width()), in + v.at(o, w), real * sizeof(T));
      clear(out + o * v.width() + v.real(w), v.width() - v.real(w));
    }
  }

  /// Elements [begin, begin + count) of every share of `tensor` to where they travel: share w's to `to + w·stride`.
  /// What a share has of padding is zero.
  template <class From, class To>
  static void pack_shares(scattering const& s, From const* tensor, std::size_t begin, std::size_t count, To* to,
                          std::size_t stride) {
    for_each_share_run(s, begin, count,
                       [&](std::size_t w, std::size_t at, std::size_t base, std::size_t real, std::size_t length) {
                         To* const out = to + w * stride + at;
                         copy(tensor + base, out, real);
                         clear(out + real, length - real);
                       });
  }
  /// The opposite: real elements from there to `tensor`, added to what it has where `adds`.
  template <class From, class To>
  static void unpack_shares(scattering const& s, From const* from, std::size_t stride, std::size_t begin,
                            std::size_t count, To* tensor, bool adds) {
    for_each_share_run(s, begin, count,
                       [&](std::size_t w, std::size_t at, std::size_t base, std::size_t real, std::size_t) {
                         From const* const in = from + w * stride + at;
                         adds ? add(in, tensor + base, real) : copy(in, tensor + base, real);
                       });
  }
};

namespace detail {
template <class Communicator>
struct communicators_memory {
  using type = host_memory;
};
template <class Communicator>
requires requires { typename Communicator::memory; }
struct communicators_memory<Communicator> {
  using type = typename Communicator::memory;
};
}  // namespace detail

/// Where a communicator's buffers lie.
template <class Communicator>
using memory_of = typename detail::communicators_memory<Communicator>::type;

}  // namespace heddle
