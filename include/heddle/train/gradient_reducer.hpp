// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/comm/pieces.hpp>
#include <heddle/comm/reduction.hpp>
#include <heddle/plan/parameter_table.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <heddle/tensor/redistribute.hpp>
#include <heddle/train/begun_copies.hpp>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace heddle {

/// Sums gradients over the ranks that hold parts of them, into their rest layouts: in buckets that travel while
/// backward goes on. The first that comes of a step replaces what stands there, so that nobody clears it; the others,
/// of later micro-batches or of other uses of the same parameter, are added.
///
/// They travel as `Elements::travelling`, whatever the type of what modules leave, and arrive as `Elements::gradient`.
///
/// Where these are one type and the communicator reduces to pieces, a bucket need not hold its gradients: what is
/// all-reduced where it stands is never copied, and what is scattered once arrives where it belongs. The rooms of the
/// buckets are the plan's, for whatever communicator, so they are there all the same.
template <class Communicator, class Elements>
class gradient_reducer {
  using memory = heddle::memory_of<Communicator>;
  using T = typename Elements::travelling;
  using reduced_type = typename Elements::gradient;

 public:
  /// `reduced` leads to the reduced gradient of each entry.
  gradient_reducer(process_groups<Communicator>& comm, parameter_table const& parameters,
                   std::vector<reduced_type*> reduced)
      : comm_(&comm),
        parameters_(&parameters),
        buckets_(&parameters.buckets),
        reduced_(std::move(reduced)),
        room_(buckets_->elements),
        of_(buckets_->of.size()),
        begun_(parameters) {
    std::vector<std::size_t> segments(of_.size());
    auto const count = [&](std::size_t n) {
      if (std::size_t const k = buckets_->class_of[n]; k != bucket_table::none)
        segments[k] += parameters.entry[n].copies;
    };
    if (parameters.reduces_at_once) {
      for (std::size_t const n : parameters.of_use) count(n);
    } else {
      for (std::size_t n = 0; n < parameters.entry.size(); ++n) count(n);
    }
    for (std::size_t k = 0; k < of_.size(); ++k)
      for (auto& b : of_[k].buffers) {
        b.segments.reserve(segments[k]);
        b.pieces.reserve(by_pieces ? segments[k] : 0);
      }
  }
  [[nodiscard]] std::size_t bytes() const { return room_.bytes(); }

  /// Before the first pass of a step.
  void begin_step() { begun_.clear(); }
  /// Before the first `add` of a reduction.
  void begin_pass() {
    finish();
    for (auto& c : of_) c.bucket = c.filled = 0;
  }

  /// The unreduced gradient of one copy of entry n is complete. It is the caller's again when this returns; if it
  /// stands where the reduced one will, when `finish` returns.
  template <class Unreduced>
  void add(std::size_t n, std::size_t copy, Unreduced const* gradient) {
    auto const& e = parameters_->entry[n];
    std::size_t const k = buckets_->class_of[n];
    bool const adds = begun_.begin(n, copy);
    if (k == bucket_table::none) {
      add_alone(n, copy, gradient, adds);
      return;
    }
    bucket_class const& c = buckets_->of[k];
    state& s = of_[k];
    scattering const shares = scattering_of(comm_->mesh_of_ranks(), e.reduction);
    for (std::size_t done = 0; done < shares.size;) {
      std::size_t const length = c.length_of(s.bucket);
      buffer& b = s.buffers[s.bucket % 2];
      if (s.filled == 0) finish(k, s.bucket % 2);
      std::size_t const count = smaller(length - s.filled, shares.size - done);
      bool const stays = by_pieces && only_reduces(c) && static_cast<void const*>(gradient) == reduced_at(n, copy, 0);
      if (!stays) memory::pack_shares(shares, gradient, done, count, room_of(k, s.bucket % 2) + s.filled, length);
      b.segments.push_back({n, copy, done, s.filled, count, adds, stays || (by_pieces && scatters_once(c) && !adds)});
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
    for (std::size_t k = 0; k < of_.size(); ++k) {
      // The older of two buffers first, as all ranks do.
      std::size_t const next = of_[k].bucket % 2;
      finish(k, next);
      finish(k, 1 - next);
    }
  }

 private:
  struct segment {
    std::size_t entry, copy, begin, at, count;
    bool adds;     ///< to what stands there of this step
    bool arrives;  ///< where it belongs, and not in the bucket's room
  };
  struct buffer {
    std::vector<segment> segments;
    std::vector<std::span<T>> pieces;  ///< where its result is
    std::size_t length = 0;
    bool travels = false;
    typename Communicator::handle handle;
  };
  struct state {
    std::array<buffer, 2> buffers;
    std::size_t bucket = 0;  ///< the one that is being filled
    std::size_t filled = 0;
  };
  static constexpr bool by_pieces = comm::ReducesPieces<Communicator> && std::is_same_v<T, reduced_type>;
  static bool only_reduces(bucket_class const& c) { return c.ways == 1 && !c.restores; }
  static bool scatters_once(bucket_class const& c) { return c.count == 1 && c.ways != 1; }
  static constexpr std::size_t smaller(std::size_t a, std::size_t b) { return a < b ? a : b; }

  [[nodiscard]] T* room_of(std::size_t k, std::size_t which) const {
    bucket_class const& c = buckets_->of[k];
    return room_.data() + c.offset + which * (c.in_size + c.out_size);
  }
  [[nodiscard]] reduced_type* reduced_at(std::size_t n, std::size_t copy, std::size_t element) const {
    return reduced_[n] + copy * parameters_->entry[n].reduction.to_size + element;
  }
  /// Where the result of a bucket's first step is: what does not arrive where it belongs, at `room`.
  comm::pieces<T> pieces_of(buffer& b, [[maybe_unused]] T* room) const {
    b.pieces.clear();
    if constexpr (by_pieces)
      for (segment const& s : b.segments)
        b.pieces.push_back({s.arrives ? reduced_at(s.entry, s.copy, s.begin) : room + s.at, s.count});
    return comm::pieces<T>(b.pieces);
  }
  /// Step i of a bucket, from one of its two areas to the other where it scatters or gathers. Returns where the result
  /// is.
  template <detail::progress How>
  T* take_step(std::size_t k, std::size_t which, std::size_t i, T* from, std::size_t whole) {
    bucket_class const& c = buckets_->of[k];
    buffer& b = of_[k].buffers[which];
    auto& group = comm_->along(c.steps[i].axis);
    T* const in = room_of(k, which);
    if constexpr (by_pieces) {
      if (only_reduces(c)) {
        if constexpr (How == detail::progress::asynchronous)
          b.handle = group.all_reduce_async(pieces_of(b, from), comm::reduction::sum);
        else
          group.all_reduce(comm::pieces<T>(b.pieces), comm::reduction::sum);
        return from;
      }
    }
    if (c.steps[i].kind == step_kind::all_reduce) {
      std::span<T> const all(from, whole);
      if constexpr (How == detail::progress::asynchronous)
        b.handle = group.all_reduce_async(all, comm::reduction::sum);
      else
        group.all_reduce(all, comm::reduction::sum);
      return from;
    }
    T* const to = from == in ? in + c.in_size : in;
    if (c.steps[i].kind == step_kind::all_gather) {  // never the first step
      group.all_gather(std::span<T const>(from, whole), std::span<T>(to, whole * group.size()));
      return to;
    }
    std::span<T const> const pieces(from, whole);
    std::span<T> const mine(to, whole / group.size());
    if constexpr (by_pieces && How == detail::progress::asynchronous) {
      if (scatters_once(c)) {
        b.handle = group.reduce_scatter_async(pieces, pieces_of(b, to), comm::reduction::sum);
        return to;
      }
    }
    if constexpr (How == detail::progress::asynchronous)
      b.handle = group.reduce_scatter_async(pieces, mine, comm::reduction::sum);
    else
      group.reduce_scatter(pieces, mine, comm::reduction::sum);
    return to;
  }
  void launch(std::size_t k, std::size_t which) {
    buffer& b = of_[k].buffers[which];
    take_step<detail::progress::asynchronous>(k, which, 0, room_of(k, which), buckets_->of[k].ways * b.length);
    b.travels = true;
  }
  void finish(std::size_t k, std::size_t which) {
    bucket_class const& c = buckets_->of[k];
    buffer& b = of_[k].buffers[which];
    if (!b.travels) return;
    b.travels = false;
    b.handle.wait();
    std::size_t whole = c.ways * b.length;
    T* at = room_of(k, which);
    for (std::size_t i = 0; i < c.count; ++i) {
      if (i > 0)
        at = take_step<detail::progress::blocking>(k, which, i, at, whole);
      else if (c.steps[0].kind == step_kind::reduce_scatter)
        at += c.in_size;
      if (c.steps[i].kind == step_kind::reduce_scatter) whole /= comm_->mesh_of_ranks().axis[c.steps[i].axis].size;
      if (c.steps[i].kind == step_kind::all_gather) whole *= comm_->mesh_of_ranks().axis[c.steps[i].axis].size;
    }
    for (segment const& s : b.segments) {
      if (s.arrives) continue;
      auto const& e = parameters_->entry[s.entry];
      std::size_t const copy = s.copy * e.reduction.to_size;
      if (!c.restores) {
        put(s.entry, copy + s.begin, static_cast<T const*>(at + s.at), s.count, s.adds);
        continue;
      }
      memory::unpack_shares(scattering_of(comm_->mesh_of_ranks(), e.reduction), static_cast<T const*>(at + s.at),
                            b.length, s.begin, s.count, reduced_[s.entry] + copy, s.adds);
    }
    b.segments.clear();
  }
  template <class Unreduced>
  void add_alone(std::size_t n, std::size_t copy, Unreduced const* gradient, bool adds) {
    auto const& e = parameters_->entry[n];
    std::size_t const begin = copy * e.reduction.to_size;
    if (e.reduction.empty()) {
      if (static_cast<void const*>(gradient) != reduced_[n] + begin) put(n, begin, gradient, e.reduction.to_size, adds);
      return;
    }
    T* const to = room_.data() + buckets_->alone_offset;
    T* scratch = to + slot<T>(e.reduction.to_size);
    if constexpr (std::is_same_v<Unreduced, T>) {
      redistribute(*comm_, e.reduction, gradient, to, scratch);
    } else {
      T* const converted = scratch;
      scratch += slot<T>(e.reduction.from_size);
      memory::copy(gradient, converted, e.reduction.from_size);
      redistribute(*comm_, e.reduction, static_cast<T const*>(converted), to, scratch);
    }
    put(n, begin, static_cast<T const*>(to), e.reduction.to_size, adds);
  }
  template <class From>
  void put(std::size_t n, std::size_t begin, From const* from, std::size_t count, bool adds) {
    reduced_type* const to = reduced_[n] + begin;
    adds ? memory::add(from, to, count) : memory::copy(from, to, count);
  }

  process_groups<Communicator>* comm_;
  parameter_table const* parameters_;
  bucket_table const* buckets_;
  std::vector<reduced_type*> reduced_;
  typename memory::template arena<T> room_;
  std::vector<state> of_;  ///< of each class of buckets
  begun_copies begun_;     ///< whose reduced gradient stands there, or travels
};

}  // namespace heddle
