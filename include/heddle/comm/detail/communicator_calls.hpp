// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <heddle/comm/communicator.hpp>
#include <heddle/comm/detail/thread_transfer.hpp>
#include <heddle/comm/detail/typed_call.hpp>

namespace heddle::comm::detail {

/// The operations of a communicator, in terms of what `Self` does with a call that `Rank` has checked. It has, for its
/// friend:
///
/// - `run(call)` and `run(transfer)`, which return when the buffers are the caller's again; `start(call)` and
///   `start_transfer<T>(…)`, which return the `Handle` that waits for it;
/// - `reduces<T>(call)`, which notes what joins elements of T as `call.how` says;
/// - `of(group)`, the same rank in another group, as `Rank` has made it.
template <class Self, class Handle, class Rank>
class communicator_calls {
 public:
  using handle = Handle;

  [[nodiscard]] std::size_t rank() const noexcept { return rank_.member(); }
  [[nodiscard]] std::size_t size() const noexcept { return rank_.size(); }
  [[nodiscard]] std::string const& name() const noexcept { return rank_.name(); }
  /// The rank in the whole run, for messages.
  [[nodiscard]] std::size_t world_rank() const { return rank_.world_rank(); }
  /// What this rank did in this communicator so far. A collective counts in it when it has returned on this rank.
  [[nodiscard]] communication_counters counters() const { return rank_.counters(); }

  /// data[i] becomes the join of data[i] of all ranks, on all ranks. Each rank sends `all_reduce_sent`.
  template <class T>
  void all_reduce(std::span<T> data, reduction how = reduction::sum) {
    rank_.begin(operation::all_reduce);
    self().run(reducing<T>(reduce_call<T>(operation::all_reduce, data.size(), how, data.data(), data.data())));
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(std::span<T> data, reduction how = reduction::sum) {
    rank_.begin(operation::all_reduce);
    return self().start(reducing<T>(reduce_call<T>(operation::all_reduce, data.size(), how, data.data(), data.data())));
  }

  /// out becomes this rank's chunk (`chunk_count`, `chunk_begin`) of the join of `in` of all ranks. `out` may be that
  /// chunk of `in`; else the two are apart. Each rank sends `reduce_scatter_sent(in.size(), …)`.
  template <class T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, reduction how = reduction::sum) {
    rank_.begin(operation::reduce_scatter);
    self().run(reducing<T>(rank_.template reduce_scatter_call<T>(in, out, how)));
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, std::span<T> out,
                                            reduction how = reduction::sum) {
    rank_.begin(operation::reduce_scatter);
    return self().start(reducing<T>(rank_.template reduce_scatter_call<T>(in, out, how)));
  }

  /// out becomes the chunks of all ranks, in their order; `in` is this rank's chunk of out.size() elements, and may be
  /// that part of `out`; else the two are apart. Each rank sends `all_gather_sent(out.size(), …)`.
  template <class T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    rank_.begin(operation::all_gather);
    self().run(rank_.template all_gather_call<T>(in, out));
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    rank_.begin(operation::all_gather);
    return self().start(rank_.template all_gather_call<T>(in, out));
  }

  /// Several all-gathers as one call, of which each part counts: ranks meet once. All ranks pass parts of the same
  /// sizes in the same order; buffers of different parts are apart. The list, like the data, must stay as it is until
  /// the call has ended.
  template <class T>
  void all_gather(gather_parts<T> parts) {
    rank_.begin(operation::all_gather, parts.size());
    self().run(rank_.template all_gather_call<T>(parts));
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(gather_parts<T> parts) {
    rank_.begin(operation::all_gather, parts.size());
    return self().start(rank_.template all_gather_call<T>(parts));
  }

  /// Block r of `in` goes to rank r; block r of `out` comes from rank r. Equal blocks: both spans have the same size, a
  /// multiple of size(). Each rank sends `all_to_all_sent(in.size(), …)`.
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    rank_.begin(operation::all_to_all);
    self().run(rank_.template all_to_all_call<T>(in, out));
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    rank_.begin(operation::all_to_all);
    return self().start(rank_.template all_to_all_call<T>(in, out));
  }

  /// The same with blocks of any length, one after the other in rank order: send_counts[r] elements go to rank r,
  /// receive_counts[r] come from it. Each rank sends the sum of send_counts but its own block.
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<std::size_t const> send_counts,
                  std::span<T> out, std::span<std::size_t const> receive_counts) {
    rank_.begin(operation::all_to_all);
    self().run(rank_.template all_to_all_call<T>(in, send_counts, out, receive_counts));
  }
  /// The counts, like the data, must stay as they are until it is waited for.
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in,
                                        std::span<std::size_t const> send_counts, std::span<T> out,
                                        std::span<std::size_t const> receive_counts) {
    rank_.begin(operation::all_to_all);
    return self().start(rank_.template all_to_all_call<T>(in, send_counts, out, receive_counts));
  }

  /// data becomes that of rank `root`. The root sends `broadcast_sent`.
  template <class T>
  void broadcast(std::span<T> data, std::size_t root) {
    rank_.begin(operation::broadcast);
    self().run(rank_.template broadcast_call<T>(data, root));
  }
  template <class T>
  [[nodiscard]] handle broadcast_async(std::span<T> data, std::size_t root) {
    rank_.begin(operation::broadcast);
    return self().start(rank_.template broadcast_call<T>(data, root));
  }

  /// Returns when every rank has called it. Moves nothing.
  void barrier() {
    rank_.begin(operation::barrier);
    self().run(collective_call{});
  }

  /// Gives `data` to rank `destination`, which receives exactly as much of the same type. Transfers of one ordered pair
  /// of ranks meet in the order of their calls. There is no buffer: it returns when the data has been taken.
  template <class T>
  void send(std::span<T> data, std::size_t destination) {
    rank_.begin(operation::send);
    transfer one;
    rank_.template prepare<T>(one, operation::send, destination, data.data(), nullptr, data.size());
    self().run(one);
  }
  template <class T>
  [[nodiscard]] handle send_async(std::span<T> data, std::size_t destination) {
    rank_.begin(operation::send);
    return self().template start_transfer<T>(operation::send, destination, data.data(), nullptr, data.size());
  }

  /// Takes what rank `source` sends.
  template <class T>
  void receive(std::span<T> data, std::size_t source) {
    rank_.begin(operation::receive);
    transfer one;
    rank_.template prepare<T>(one, operation::receive, source, nullptr, data.data(), data.size());
    self().run(one);
  }
  template <class T>
  [[nodiscard]] handle receive_async(std::span<T> data, std::size_t source) {
    rank_.begin(operation::receive);
    return self().template start_transfer<T>(operation::receive, source, nullptr, data.data(), data.size());
  }

  /// The group of the ranks that pass the same color, ordered by key, then by rank here. Called by every rank, with
  /// one label, which names the new groups; without one they get the name of this one.
  [[nodiscard]] Self split(std::size_t color, std::size_t key, std::string_view label = {}) {
    return self().of(rank_.split(color, key, label));
  }

  /// The group of exactly these ranks of this one, in the order of the list. Called by its members alone, with the same
  /// list and label; it waits for nobody. A member calls for the same list more than once to get several groups.
  [[nodiscard]] Self subset(std::span<std::size_t const> members, std::string_view label = {}) {
    return self().of(rank_.subset(members, label));
  }

 protected:
  explicit communicator_calls(Rank rank) : rank_(std::move(rank)) {}

  template <class T>
  [[nodiscard]] static collective_call reducing(collective_call call) {
    Self::template reduces<T>(call);
    return call;
  }

  Rank rank_;

 private:
  [[nodiscard]] Self& self() { return static_cast<Self&>(*this); }
};

}  // namespace heddle::comm::detail
