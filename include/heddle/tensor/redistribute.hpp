// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>
#include <heddle/comm/reduction.hpp>
#include <heddle/layout/redistribution.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <span>
#include <utility>

namespace heddle {

namespace detail {

/// A row-major local tensor seen from one of its dimensions: [outer, extent, inner].
struct dimension_view {
  std::size_t outer = 1, extent = 1, inner = 1;
};
constexpr dimension_view view_at(std::array<std::size_t, max_rank> const& extent, std::size_t rank, std::size_t k) {
  dimension_view v;
  for (std::size_t i = 0; i < rank; ++i) (i < k ? v.outer : i == k ? v.extent : v.inner) *= extent[i];
  return v;
}

/// How many of the `block` indices from `begin` lie below `extent`: the others are padding.
constexpr std::size_t real_part(std::size_t extent, std::size_t begin, std::size_t block) {
  std::size_t const left = extent > begin ? extent - begin : 0;
  return left < block ? left : block;
}

/// [outer, extent, inner] → [ways, outer, ⌈extent/ways⌉, inner], padding set to zero, or back without padding: what
/// turns blocks of an inner dimension into the contiguous pieces that a collective exchanges.
template <class T>
void blocks_to_front(T const* in, T* out, dimension_view const& v, std::size_t ways) {
  std::size_t const block = block_extent(v.extent, ways);
  for (std::size_t w = 0; w < ways; ++w)
    for (std::size_t o = 0; o < v.outer; ++o) {
      std::size_t const real = real_part(v.extent, w * block, block) * v.inner;
      T* const to = out + (w * v.outer + o) * block * v.inner;
      if (real != 0) std::memcpy(to, in + (o * v.extent + w * block) * v.inner, real * sizeof(T));
      std::memset(to + real, 0, (block * v.inner - real) * sizeof(T));
    }
}
template <class T>
void blocks_from_front(T const* in, T* out, dimension_view const& v, std::size_t ways) {
  std::size_t const block = block_extent(v.extent, ways);
  for (std::size_t w = 0; w < ways; ++w)
    for (std::size_t o = 0; o < v.outer; ++o)
      if (std::size_t const real = real_part(v.extent, w * block, block) * v.inner; real != 0)
        std::memcpy(out + (o * v.extent + w * block) * v.inner, in + (w * v.outer + o) * block * v.inner,
                    real * sizeof(T));
}

enum class progress : bool { blocking, asynchronous };

/// Begins one step: everything up to its collective, which is under way when this returns (and over where it blocks).
/// `packed` has room for what `packing_of` says.
template <progress How, class Communicator, class T>
typename Communicator::handle begin_step(redistribution const& path, redistribution_step const& s, Communicator& group,
                                         T const* in, T* out, T* packed) {
  std::size_t const ways = group.size();
  std::size_t const n = size_before(path, s);
  step_packing const packs = packing_of(path, s, ways);
  T const* pieces = in;
  if (packs.in != 0) {
    blocks_to_front(in, packed, view_at(s.extent, path.rank, s.to), ways);
    pieces = packed;
  }
  T* const arrive = packs.out != 0 ? packed + packs.in : out;
  std::size_t const moved = size_moved(path, s, ways);
  constexpr bool waits = How == progress::blocking;
  switch (s.kind) {
    case step_kind::slice: {
      dimension_view const v = view_at(s.extent, path.rank, s.to);
      std::size_t const block = block_extent(v.extent, ways), begin = block * group.rank();
      std::size_t const real = real_part(v.extent, begin, block) * v.inner;
      for (std::size_t o = 0; o < v.outer; ++o) {
        if (real != 0) std::memmove(out + o * block * v.inner, in + (o * v.extent + begin) * v.inner, real * sizeof(T));
        std::memset(out + o * block * v.inner + real, 0, (block * v.inner - real) * sizeof(T));
      }
      return {};
    }
    case step_kind::all_reduce:
      if (in != out) std::memcpy(out, in, n * sizeof(T));
      if constexpr (!waits) return group.all_reduce_async(std::span<T>(out, n), comm::reduction::sum);
      group.all_reduce(std::span<T>(out, n), comm::reduction::sum);
      return {};
    case step_kind::reduce_scatter: {
      std::span<T const> const from(pieces, moved);
      std::span<T> const to(out, moved / ways);
      if constexpr (!waits) return group.reduce_scatter_async(from, to, comm::reduction::sum);
      group.reduce_scatter(from, to, comm::reduction::sum);
      return {};
    }
    case step_kind::all_gather: {
      std::span<T const> const from(in, n);
      std::span<T> const to(arrive, moved);
      if constexpr (!waits) return group.all_gather_async(from, to);
      group.all_gather(from, to);
      return {};
    }
    case step_kind::all_to_all: {
      std::span<T const> const from(pieces, n);
      std::span<T> const to(arrive, n);
      if constexpr (!waits) return group.all_to_all_async(from, to);
      group.all_to_all(from, to);
      return {};
    }
  }
  return {};
}

/// Ends a step whose collective is over.
template <class T>
void end_step(redistribution const& path, redistribution_step const& s, std::size_t ways, T* out, T const* packed) {
  step_packing const packs = packing_of(path, s, ways);
  if (packs.out == 0) return;
  blocks_from_front(packed + packs.in, out, view_at(extents_after(s, ways), path.rank, s.from), ways);
}

/// Where the values between the steps of a path lie in its scratch, and where packed copies begin.
template <class T>
struct path_scratch {
  path_scratch(mesh_value const& mesh, redistribution const& whole, T* scratch)
      : path_(&whole), scratch_(scratch), in_place_(works_in_place(whole)) {
    for (std::size_t i = 0; i + 1 < whole.count; ++i) {
      std::size_t const after = size_after(whole, whole.step[i], mesh.axis[whole.step[i].axis].size);
      if (after > between_) between_ = after;
    }
  }
  [[nodiscard]] T* packed() const { return scratch_ + (path_->count > 1 ? 2 * between_ : 0); }
  /// Where step i leaves its result.
  [[nodiscard]] T* after(std::size_t i, T* out) const {
    return in_place_ || i + 1 == path_->count ? out : scratch_ + i % 2 * between_;
  }

 private:
  redistribution const* path_;
  T* scratch_;
  bool in_place_;
  std::size_t between_ = 0;
};

}  // namespace detail

/// Executes a redistribution on this rank's part of a tensor: `in` has `path.from_size` elements, `out` `path.to_size`,
/// `scratch` `redistribution_scratch(mesh, path)`. `in` and `out` may be the same where the path `works_in_place`.
/// Collective over the process groups of the path's axes.
///
/// **Moves.** What `count_redistribution` counts. **Order.** Reductions add in the order of the group's ranks.
template <class Communicator, class T>
void redistribute(process_groups<Communicator>& comm, redistribution const& path, T const* in, T* out, T* scratch) {
  if (path.count == 0) {
    if (in != out) std::memcpy(out, in, path.from_size * sizeof(T));
    return;
  }
  detail::path_scratch<T> const where(comm.mesh_of_ranks(), path, scratch);
  T const* from = in;
  for (std::size_t i = 0; i < path.count; ++i) {
    auto const& s = path.step[i];
    auto& group = comm.along(s.axis);
    T* const to = where.after(i, out);
    detail::begin_step<detail::progress::blocking>(path, s, group, from, to, where.packed());
    detail::end_step(path, s, group.size(), to, static_cast<T const*>(where.packed()));
    from = to;
  }
}

/// A redistribution under way: its first step runs while the caller goes on, the others run in `finish`. `in`, `out`
/// and `scratch` are as for `redistribute`, belong to the operation until `finish` returns, and may not be the same.
///
/// All ranks of a group begin, and finish, their redistributions in the same order.
template <class Communicator, class T>
class redistribution_in_flight {
 public:
  redistribution_in_flight() = default;
  void begin(process_groups<Communicator>& comm, redistribution const& path, T const* in, T* out, T* scratch) {
    comm_ = &comm;
    path_ = &path;
    out_ = out;
    scratch_ = scratch;
    if (path.count == 0) {
      std::memcpy(out, in, path.from_size * sizeof(T));
      return;
    }
    detail::path_scratch<T> const where(comm.mesh_of_ranks(), path, scratch);
    auto const& s = path.step[0];
    handle_ = detail::begin_step<detail::progress::asynchronous>(path, s, comm.along(s.axis), in, where.after(0, out),
                                                                 where.packed());
  }
  /// Returns when the result is in `out`. Without a `begin` it does nothing.
  void finish() {
    if (path_ == nullptr) return;
    redistribution const& whole = *std::exchange(path_, nullptr);
    if (whole.count == 0) return;
    handle_.wait();
    detail::path_scratch<T> const where(comm_->mesh_of_ranks(), whole, scratch_);
    for (std::size_t i = 0; i < whole.count; ++i) {
      auto const& s = whole.step[i];
      auto& group = comm_->along(s.axis);
      T* const to = where.after(i, out_);
      if (i > 0)
        detail::begin_step<detail::progress::blocking>(whole, s, group, static_cast<T const*>(where.after(i - 1, out_)),
                                                       to, where.packed());
      detail::end_step(whole, s, group.size(), to, static_cast<T const*>(where.packed()));
    }
  }

 private:
  process_groups<Communicator>* comm_ = nullptr;
  redistribution const* path_ = nullptr;
  T* out_ = nullptr;
  T* scratch_ = nullptr;
  typename Communicator::handle handle_;
};

}  // namespace heddle
