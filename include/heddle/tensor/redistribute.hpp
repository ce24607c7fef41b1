// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/comm/gather_part.hpp>
#include <heddle/comm/reduction.hpp>
#include <heddle/layout/redistribution.hpp>
#include <heddle/tensor/block_view.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <heddle/tensor/process_groups.hpp>
#include <span>
#include <vector>

namespace heddle {

namespace detail {

/// Whether the blocks of a step arrive where they belong, row by row: in an all-gather without padding.
template <class Communicator>
bool arrives_in_rows([[maybe_unused]] redistribution const& path, [[maybe_unused]] redistribution_step const& s,
                     [[maybe_unused]] std::size_t ways) {
  if constexpr (comm::GathersRows<Communicator>)
    return s.kind == step_kind::all_gather && size_moved(path, s, ways) == size_after(path, s, ways);
  return false;
}

/// What an all-gather step passes to its collective. `packed` has room for what `packing_of` says.
template <class Communicator, class T>
comm::gather_part<T> gather_part_of(redistribution const& path, redistribution_step const& s, std::size_t ways,
                                    T const* in, T* out, T* packed) {
  std::size_t const moved = size_moved(path, s, ways);
  if (arrives_in_rows<Communicator>(path, s, ways))
    return {
        {in, size_before(path, s)}, {out, moved}, block_view_at(extents_after(s, ways), path.rank, s.from, ways).outer};
  T* const arrive = packing_of(path, s, ways).out != 0 ? packed : out;
  return {{in, size_before(path, s)}, {arrive, moved}};
}

enum class progress : bool { blocking, asynchronous };

/// Begins one step: everything up to its collective, which is under way when this returns (and over where it blocks).
/// `packed` has room for what `packing_of` says.
template <progress How, class Communicator, class T>
typename Communicator::handle begin_step(redistribution const& path, redistribution_step const& s, Communicator& group,
                                         T const* in, T* out, T* packed) {
  using memory = memory_of<Communicator>;
  std::size_t const ways = group.size();
  std::size_t const n = size_before(path, s);
  step_packing const packs = packing_of(path, s, ways);
  T const* pieces = in;
  if (packs.in != 0) {
    memory::blocks_to_front(block_view_at(s.extent, path.rank, s.to, ways), in, packed);
    pieces = packed;
  }
  T* const arrive = packs.out != 0 ? packed + packs.in : out;
  std::size_t const moved = size_moved(path, s, ways);
  constexpr bool waits = How == progress::blocking;
  switch (s.kind) {
    case step_kind::slice:
      memory::block_of(block_view_at(s.extent, path.rank, s.to, ways), group.rank(), in, out);
      return {};
    case step_kind::all_reduce:
      memory::copy(in, out, n);
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
      if constexpr (waits) {  // those under way are made together, and not here
        std::array<comm::gather_part<T>, 1> const one = {gather_part_of<Communicator>(path, s, ways, in, out, packed)};
        if (one[0].rows == 1)
          group.all_gather(one[0].in, one[0].out);
        else
          group.all_gather(comm::gather_parts<T>(one));
      }
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
template <class Communicator, class T>
void end_step(redistribution const& path, redistribution_step const& s, std::size_t ways, T* out, T const* packed) {
  step_packing const packs = packing_of(path, s, ways);
  if (packs.out == 0 || arrives_in_rows<Communicator>(path, s, ways)) return;
  memory_of<Communicator>::blocks_from_front(block_view_at(extents_after(s, ways), path.rank, s.from, ways),
                                             packed + packs.in, out);
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
    memory_of<Communicator>::copy(in, out, path.from_size);
    return;
  }
  detail::path_scratch<T> const where(comm.mesh_of_ranks(), path, scratch);
  T const* from = in;
  for (std::size_t i = 0; i < path.count; ++i) {
    auto const& s = path.step[i];
    auto& group = comm.along(s.axis);
    T* const to = where.after(i, out);
    detail::begin_step<detail::progress::blocking>(path, s, group, from, to, where.packed());
    detail::end_step<Communicator>(path, s, group.size(), to, static_cast<T const*>(where.packed()));
    from = to;
  }
}

/// Redistributions under way together: their first steps run while the caller goes on, the others run in `finish`.
/// Steps that gather over the same axis are one call. Buffers are as for `redistribute`, belong to the operation until
/// `finish` returns, and are apart from each other.
///
/// All ranks of a group begin, and finish, theirs in the same order.
template <class Communicator, class T>
class redistributions_in_flight {
 public:
  /// Of at most `most` redistributions at once.
  redistributions_in_flight(process_groups<Communicator>& comm, std::size_t most) : comm_(&comm) {
    moving_.reserve(most);
    for (std::size_t a = 0; a != comm.mesh_of_ranks().axes; ++a) gathered_[a].parts.reserve(most);
  }

  redistributions_in_flight(redistributions_in_flight const&) = delete;
  redistributions_in_flight& operator=(redistributions_in_flight const&) = delete;

  /// One that `begin` begins. `path` is not empty, and outlives the operation.
  void add(redistribution const& path, T const* in, T* out, T* scratch) {
    moving_.push_back({&path, in, out, scratch, {}});
  }
  /// Begins those that were added.
  void begin() { start<detail::progress::asynchronous>(0); }
  /// Returns when all results are there. Where nothing was begun it does nothing.
  void finish() { from_step(1); }
  /// Executes those that were added, and returns when all results are there.
  void run() { from_step(0); }

 private:
  struct one {
    redistribution const* path;
    T const* in;
    T* out;
    T* scratch;
    typename Communicator::handle handle;
  };
  struct gather {
    std::vector<comm::gather_part<T>> parts;
    typename Communicator::handle handle;
  };

  [[nodiscard]] detail::path_scratch<T> where(one const& m) const {
    return {comm_->mesh_of_ranks(), *m.path, m.scratch};
  }
  [[nodiscard]] T* to(one const& m, std::size_t i) const { return where(m).after(i, m.out); }

  /// Ends every step; those from step `first` on are not under way yet.
  void from_step(std::size_t first) {
    for (std::size_t i = 0; !moving_.empty(); ++i) {
      if (i >= first) start<detail::progress::blocking>(i);
      for (one& m : moving_) m.handle.wait();
      for (gather& g : gathered_) g.handle.wait();
      bool more = false;
      for (one const& m : moving_) {
        if (i >= m.path->count) continue;
        detail::end_step<Communicator>(*m.path, m.path->step[i], comm_->along(m.path->step[i].axis).size(), to(m, i),
                                       static_cast<T const*>(where(m).packed()));
        more = more || i + 1 < m.path->count;
      }
      if (!more) moving_.clear();
    }
  }

  /// Step i of every path that has one.
  template <detail::progress How>
  void start(std::size_t i) {
    for (gather& g : gathered_) g.parts.clear();
    for (one& m : moving_) {
      if (i >= m.path->count) continue;
      redistribution_step const& s = m.path->step[i];
      auto& group = comm_->along(s.axis);
      T const* const from = i == 0 ? m.in : to(m, i - 1);
      if (s.kind == step_kind::all_gather)
        gathered_[s.axis].parts.push_back(
            detail::gather_part_of<Communicator>(*m.path, s, group.size(), from, to(m, i), where(m).packed()));
      else
        m.handle = detail::begin_step<How>(*m.path, s, group, from, to(m, i), where(m).packed());
    }
    for (std::size_t a = 0; a != comm_->mesh_of_ranks().axes; ++a) {
      comm::gather_parts<T> const parts(gathered_[a].parts);
      if (parts.size() == 0) continue;
      if constexpr (How == detail::progress::asynchronous)
        gathered_[a].handle = comm_->along(a).all_gather_async(parts);
      else
        comm_->along(a).all_gather(parts);
    }
  }

  process_groups<Communicator>* comm_;
  std::vector<one> moving_;
  std::array<gather, max_axes> gathered_;  ///< by axis
};

}  // namespace heddle
