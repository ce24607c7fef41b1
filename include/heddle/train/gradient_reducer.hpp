// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/comm/reduction.hpp>
#include <heddle/plan/gradient_buckets.hpp>
#include <heddle/tensor/arena.hpp>
#include <heddle/tensor/mesh_communicator.hpp>
#include <heddle/tensor/pack_shares.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <span>
#include <vector>

namespace heddle {

/// Sums gradients over the ranks that hold parts of them, into their rest layouts: in buckets that travel while
/// backward goes on. What is reduced per micro-batch is added to what
/// stands there; what is reduced once a step replaces it.
template <class R, stage_kind Kind, class Communicator>
class gradient_reducer {
  using parameters = stage_parameters<R, Kind>;
  using buckets = gradient_buckets<R, Kind>;
  using mesh_comm = mesh_communicator<typename R::mesh, Communicator>;
  using element = typename R::element;
  static constexpr mesh_value mesh = R::mesh::value;
  static constexpr bool adds = parameters::reduces_at_once;

 public:
  using pointers = std::array<element*, parameters::use_count>;

  /// `reduced` leads to the reduced gradient of each entry.
  gradient_reducer(mesh_comm& comm, pointers const& reduced)
      : comm_(&comm), reduced_(reduced), memory_(buckets::elements) {
    for (std::size_t n = 0; n < parameters::use_count; ++n) {
      std::size_t const entry = adds ? parameters::of_use[n] : n;
      if (entry >= parameters::count || buckets::class_of[entry] == buckets::none) continue;
      capacity_[buckets::class_of[entry]] += parameters::entry[entry].copies;
    }
    for (std::size_t k = 0; k < buckets::count; ++k)
      for (auto& b : of_[k].buffers) b.segments.reserve(capacity_[k]);
  }
  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }

  /// Before the first `add` of a reduction.
  void begin_pass() {
    finish();
    for (auto& c : of_) c.bucket = c.filled = 0;
  }

  /// The unreduced gradient of one copy of entry n is complete. It is the caller's again when this returns.
  void add(std::size_t n, std::size_t copy, element const* gradient) {
    auto const& e = parameters::entry[n];
    std::size_t const k = buckets::class_of[n];
    if (k == buckets::none) {
      add_alone(n, copy, gradient);
      return;
    }
    bucket_class const& c = buckets::of[k];
    state& s = of_[k];
    scattering const shares = scattering_of(mesh, e.reduction);
    for (std::size_t done = 0; done < shares.size;) {
      std::size_t const length = c.length_of(s.bucket);
      buffer& b = s.buffers[s.bucket % 2];
      if (s.filled == 0) finish(k, s.bucket % 2);
      std::size_t const count = smaller(length - s.filled, shares.size - done);
      pack_shares(shares, gradient, done, count, memory_of(k, s.bucket % 2) + s.filled, length);
      b.segments.push_back({n, copy, done, s.filled, count});
      s.filled += count;
      done += count;
      if (s.filled == length) {
        b.length = length;
        launch(k, s.bucket % 2);
        ++s.bucket;
        s.filled = 0;
      }
    }
  }

  /// Returns when everything that was added is reduced.
  void finish() {
    for (std::size_t k = 0; k < buckets::count; ++k) {
      // The older of two buffers first, as all ranks do.
      std::size_t const next = of_[k].bucket % 2;
      finish(k, next);
      finish(k, 1 - next);
    }
  }

 private:
  struct segment {
    std::size_t entry, copy, begin, at, count;
  };
  struct buffer {
    std::vector<segment> segments;
    std::size_t length = 0;
    bool travels = false;
    typename Communicator::handle handle;
  };
  struct state {
    std::array<buffer, 2> buffers;
    std::size_t bucket = 0;  ///< the one that is being filled
    std::size_t filled = 0;
  };
  static constexpr std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

  [[nodiscard]] element* memory_of(std::size_t k, std::size_t which) const {
    bucket_class const& c = buckets::of[k];
    return memory_.data() + c.offset + which * (c.in_size + c.out_size);
  }
  /// Step i of a bucket, from one of its two areas to the other where it scatters or gathers. Returns where the result
  /// is.
  template <detail::progress How>
  element* take_step(std::size_t k, std::size_t which, std::size_t i, element* from, std::size_t whole) {
    bucket_class const& c = buckets::of[k];
    buffer& b = of_[k].buffers[which];
    auto& group = comm_->along(c.steps[i].axis);
    element* const in = memory_of(k, which);
    if (c.steps[i].kind == step_kind::all_reduce) {
      std::span<element> const all(from, whole);
      if constexpr (How == detail::progress::asynchronous)
        b.handle = group.all_reduce_async(all, comm::reduction::sum);
      else
        group.all_reduce(all, comm::reduction::sum);
      return from;
    }
    element* const to = from == in ? in + c.in_size : in;
    if (c.steps[i].kind == step_kind::all_gather) {  // never the first step
      group.all_gather(std::span<element const>(from, whole), std::span<element>(to, whole * group.size()));
      return to;
    }
    std::span<element const> const pieces(from, whole);
    std::span<element> const mine(to, whole / group.size());
    if constexpr (How == detail::progress::asynchronous)
      b.handle = group.reduce_scatter_async(pieces, mine, comm::reduction::sum);
    else
      group.reduce_scatter(pieces, mine, comm::reduction::sum);
    return to;
  }
  void launch(std::size_t k, std::size_t which) {
    buffer& b = of_[k].buffers[which];
    take_step<detail::progress::asynchronous>(k, which, 0, memory_of(k, which), buckets::of[k].ways * b.length);
    b.travels = true;
  }
  void finish(std::size_t k, std::size_t which) {
    bucket_class const& c = buckets::of[k];
    buffer& b = of_[k].buffers[which];
    if (!b.travels) return;
    b.travels = false;
    b.handle.wait();
    std::size_t whole = c.ways * b.length;
    element* at = memory_of(k, which);
    for (std::size_t i = 0; i < c.count; ++i) {
      if (i > 0)
        at = take_step<detail::progress::blocking>(k, which, i, at, whole);
      else if (c.steps[0].kind == step_kind::reduce_scatter)
        at += c.in_size;
      if (c.steps[i].kind == step_kind::reduce_scatter) whole /= mesh.axis[c.steps[i].axis].size;
      if (c.steps[i].kind == step_kind::all_gather) whole *= mesh.axis[c.steps[i].axis].size;
    }
    for (segment const& s : b.segments) {
      auto const& e = parameters::entry[s.entry];
      std::size_t const copy = s.copy * e.reduction.to_size;
      if (!c.restores) {
        put(s.entry, copy + s.begin, at + s.at, s.count);
        continue;
      }
      unpack_shares(scattering_of(mesh, e.reduction), static_cast<element const*>(at + s.at), b.length, s.begin,
                    s.count,
                    [&](std::size_t to, element const* from, std::size_t n) { put(s.entry, copy + to, from, n); });
    }
    b.segments.clear();
  }
  void add_alone(std::size_t n, std::size_t copy, element const* gradient) {
    auto const& e = parameters::entry[n];
    std::size_t const begin = copy * e.reduction.to_size;
    if (!e.reduction.empty()) {
      element* const to = memory_.data() + buckets::alone_offset;
      redistribute(*comm_, e.reduction, gradient, to, to + slot<element>(e.reduction.to_size));
      gradient = to;
    }
    if (gradient != reduced_[n] + begin) put(n, begin, gradient, e.reduction.to_size);
  }
  void put(std::size_t n, std::size_t begin, element const* from, std::size_t count) {
    element* const to = reduced_[n] + begin;
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (adds)
        to[i] += from[i];
      else
        to[i] = from[i];
    }
  }

  mesh_comm* comm_;
  pointers reduced_;
  arena<element> memory_;
  std::array<state, buckets::count> of_;
  std::array<std::size_t, buckets::count> capacity_{};
};

}  // namespace heddle
