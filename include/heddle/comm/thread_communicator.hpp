// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/comm/communicator.hpp>
#include <heddle/comm/detail/typed_call.hpp>
#include <heddle/comm/thread_handle.hpp>

namespace heddle::comm {

/// One rank's side of a process group whose ranks are threads. Made by `run_threads`, `split` and `subset`; it must not
/// outlive the rank's function. A model of `Communicator`, with these promises of its own:
///
/// - nothing is buffered or allocated by a call (after the first asynchronous ones): data is copied once, from the
///   buffer of one rank to that of another;
/// - reductions join ranks 0, 1, 2, … in that order, and every rank gets the same bits;
/// - every disagreement between ranks ends the run with an error on all of them;
/// - one thread at a time calls the collectives of one communicator; different communicators of one rank may be used
///   from different threads.
///
/// Errors: `communication_error` and its kinds, see comm/errors.hpp. After the first one every call of the run throws.
class thread_communicator {
 public:
  using handle = thread_handle;

  thread_communicator(thread_communicator&&) noexcept = default;
  thread_communicator& operator=(thread_communicator&&) noexcept = default;

  [[nodiscard]] std::size_t rank() const noexcept { return member_; }
  [[nodiscard]] std::size_t size() const noexcept { return group_->size(); }
  [[nodiscard]] std::string const& name() const noexcept { return group_->name(); }
  /// The rank in the whole run, for messages.
  [[nodiscard]] std::size_t world_rank() const { return group_->world_rank(member_); }
  /// What this rank did in this communicator so far. A collective counts in it when it has returned on this rank.
  [[nodiscard]] communication_counters counters() const { return group_->counters(member_); }

  /// data[i] becomes the join of data[i] of all ranks, on all ranks. Each rank sends `all_reduce_sent`.
  template <class T>
  void all_reduce(std::span<T> data, reduction how = reduction::sum) {
    begin(operation::all_reduce);
    run(detail::reduce_call<T>(operation::all_reduce, data.size(), how, data.data(), data.data()));
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(std::span<T> data, reduction how = reduction::sum) {
    begin(operation::all_reduce);
    return start(detail::reduce_call<T>(operation::all_reduce, data.size(), how, data.data(), data.data()));
  }

  /// out becomes this rank's chunk (`chunk_count`, `chunk_begin`) of the join of `in` of all ranks. `out` may be that
  /// chunk of `in`; else the two are apart. Each rank sends `reduce_scatter_sent(in.size(), …)`.
  template <class T>
  void reduce_scatter(std::span<std::type_identity_t<T> const> in, std::span<T> out, reduction how = reduction::sum) {
    begin(operation::reduce_scatter);
    run(reduce_scatter_call<T>(in, out, how));
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, std::span<T> out,
                                            reduction how = reduction::sum) {
    begin(operation::reduce_scatter);
    return start(reduce_scatter_call<T>(in, out, how));
  }

  /// out becomes the chunks of all ranks, in their order; `in` is this rank's chunk of out.size() elements, and may be
  /// that part of `out`; else the two are apart. Each rank sends `all_gather_sent(out.size(), …)`.
  template <class T>
  void all_gather(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    begin(operation::all_gather);
    run(all_gather_call<T>(in, out));
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    begin(operation::all_gather);
    return start(all_gather_call<T>(in, out));
  }

  /// Several all-gathers as one call, of which each part counts: ranks meet once. All ranks pass parts of the same
  /// sizes in the same order; buffers of different parts are apart. The list, like the data, must stay as it is until
  /// the call has ended.
  template <class T>
  void all_gather(gather_parts<T> parts) {
    begin(operation::all_gather, parts.size());
    run(all_gather_call<T>(parts));
  }
  template <class T>
  [[nodiscard]] handle all_gather_async(gather_parts<T> parts) {
    begin(operation::all_gather, parts.size());
    return start(all_gather_call<T>(parts));
  }

  /// Block r of `in` goes to rank r; block r of `out` comes from rank r. Equal blocks: both spans have the same size, a
  /// multiple of size(). Each rank sends `all_to_all_sent(in.size(), …)`.
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    begin(operation::all_to_all);
    run(all_to_all_call<T>(in, out));
  }
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in, std::span<T> out) {
    begin(operation::all_to_all);
    return start(all_to_all_call<T>(in, out));
  }

  /// The same with blocks of any length, one after the other in rank order: send_counts[r] elements go to rank r,
  /// receive_counts[r] come from it. Each rank sends the sum of send_counts but its own block.
  template <class T>
  void all_to_all(std::span<std::type_identity_t<T> const> in, std::span<std::size_t const> send_counts,
                  std::span<T> out, std::span<std::size_t const> receive_counts) {
    begin(operation::all_to_all);
    run(all_to_all_call<T>(in, send_counts, out, receive_counts));
  }
  /// The counts, like the data, must stay as they are until it is waited for.
  template <class T>
  [[nodiscard]] handle all_to_all_async(std::span<std::type_identity_t<T> const> in,
                                        std::span<std::size_t const> send_counts, std::span<T> out,
                                        std::span<std::size_t const> receive_counts) {
    begin(operation::all_to_all);
    return start(all_to_all_call<T>(in, send_counts, out, receive_counts));
  }

  /// data becomes that of rank `root`. The root sends `broadcast_sent`.
  template <class T>
  void broadcast(std::span<T> data, std::size_t root) {
    begin(operation::broadcast);
    run(broadcast_call<T>(data, root));
  }
  template <class T>
  [[nodiscard]] handle broadcast_async(std::span<T> data, std::size_t root) {
    begin(operation::broadcast);
    return start(broadcast_call<T>(data, root));
  }

  /// Returns when every rank has called it. Moves nothing.
  void barrier() {
    begin(operation::barrier);
    run(detail::collective_call{});
  }

  /// Gives `data` to rank `destination`, which receives exactly as much of the same type. Transfers of one ordered pair
  /// of ranks meet in the order of their calls. There is no buffer: it returns when the data has been taken.
  template <class T>
  void send(std::span<T> data, std::size_t destination) {
    begin(operation::send);
    detail::transfer one;
    prepare<T>(one, operation::send, destination, data.data(), nullptr, data.size());
    group_->post(one);
    group_->wait(one);
  }
  template <class T>
  [[nodiscard]] handle send_async(std::span<T> data, std::size_t destination) {
    begin(operation::send);
    return start_transfer<T>(operation::send, destination, data.data(), nullptr, data.size());
  }

  /// Takes what rank `source` sends.
  template <class T>
  void receive(std::span<T> data, std::size_t source) {
    begin(operation::receive);
    detail::transfer one;
    prepare<T>(one, operation::receive, source, nullptr, data.data(), data.size());
    group_->post(one);
    group_->wait(one);
  }
  template <class T>
  [[nodiscard]] handle receive_async(std::span<T> data, std::size_t source) {
    begin(operation::receive);
    return start_transfer<T>(operation::receive, source, nullptr, data.data(), data.size());
  }

  /// The group of the ranks that pass the same color, ordered by key, then by rank here. Called by every rank, with
  /// one label, which names the new groups; without one they get the name of this one.
  [[nodiscard]] thread_communicator split(std::size_t color, std::size_t key, std::string_view label = {}) {
    begin(operation::split);
    std::shared_ptr<detail::thread_group> made;
    std::size_t made_rank = 0;
    detail::collective_call call;
    call.op = operation::split;
    call.color = color;
    call.key = key;
    call.label = label.empty() ? std::string_view(name()) : label;
    call.made = &made;
    call.made_rank = &made_rank;
    run(call);
    return {std::move(made), made_rank};
  }

  /// The group of exactly these ranks of this one, in the order of the list. Called by its members alone, with the same
  /// list and label; it waits for nobody. A member calls for the same list more than once to get several groups.
  [[nodiscard]] thread_communicator subset(std::span<std::size_t const> members, std::string_view label = {}) {
    begin(operation::split);
    std::vector<std::size_t> const list(members.begin(), members.end());
    std::vector<bool> named(size());
    std::size_t made_rank = list.size();
    for (std::size_t k = 0; k < list.size(); ++k) {
      require_rank(operation::split, "a member of a subset", list[k]);
      if (named[list[k]]) reject(operation::split, "subset " + detail::list_text(list) + " names a rank twice");
      named[list[k]] = true;
      if (list[k] == member_) made_rank = k;
    }
    if (made_rank == list.size())
      reject(operation::split, "subset " + detail::list_text(list) + " is asked for by rank " +
                                   std::to_string(member_) + ", which is not in it; let only its members call");
    return {group_->subset(member_, list, label.empty() ? name() : std::string(label)), made_rank};
  }

 private:
  friend class thread_run;
  thread_communicator(std::shared_ptr<detail::thread_group> group, std::size_t member)
      : group_(std::move(group)), member_(member) {}

  /// Refuses a call that must not happen, and counts it, as `calls` calls.
  void begin(operation op, std::size_t calls = 1) {
    if (std::uncaught_exceptions() != 0)
      throw communication_error(std::string(name_of(op)) + " on " + detail::in_quotes(name()) +
                                " is called while an exception unwinds the stack; a destructor must not communicate "
                                "then, test std::uncaught_exceptions() first");
    detail::thread_world& world = group_->world();
    if (world.failed()) world.throw_failure();
    detail::thread_engine const& engine = group_->engine(member_);
    if (engine.finished.load(std::memory_order_relaxed))
      throw communication_error(std::string(name_of(op)) + " on " + detail::in_quotes(name()) +
                                " is called after its run; a communicator must not outlive the rank's function");
    if (engine.abandoned())
      world.fail_and_throw({detail::failure_kind::rank, engine.rank(), engine.abandoned_text(), nullptr});
    group_->count_call(member_, op, calls);
  }

  void run(detail::collective_call const& call) {
    group_->engine(member_).drain(*group_, member_);
    group_->collective(member_, call);
  }

  [[nodiscard]] handle start(detail::collective_call const& call) {
    detail::async_record& record = group_->engine(member_).take();
    record.transfers = false;
    record.call = call;
    record.group = group_.get();
    record.member = member_;
    group_->engine(member_).submit(record);
    return {group_, record};
  }

  template <class T>
  [[nodiscard]] handle start_transfer(operation op, std::size_t peer, void const* from, void* to, std::size_t count) {
    detail::thread_engine& engine = group_->engine(member_);
    detail::async_record& record = engine.take();
    record.transfers = true;
    record.group = group_.get();
    record.member = member_;
    try {
      prepare<T>(record.move, op, peer, from, to, count);
      group_->post(record.move);
    } catch (...) {
      engine.give(record);
      throw;
    }
    return {group_, record};
  }

  template <class T>
  void prepare(detail::transfer& one, operation op, std::size_t peer, void const* from, void* to, std::size_t count) {
    detail::require_element<T>();
    require_rank(op, op == operation::send ? "destination" : "source", peer);
    if (peer == member_) reject(op, "rank " + std::to_string(peer) + " cannot exchange with itself; copy instead");
    one.op = op;
    one.kind = element_kind_of<T>;
    one.element_size = sizeof(T);
    one.count = count;
    one.from = from;
    one.to = to;
    one.self = member_;
    one.peer = peer;
  }

  template <class T>
  detail::collective_call reduce_scatter_call(std::span<T const> in, std::span<T> out, reduction how) {
    std::size_t const chunk = chunk_count(in.size(), size(), member_);
    if (out.size() != chunk) reject(operation::reduce_scatter, chunk_text("out", out.size(), chunk, "in", in.size()));
    detail::collective_call const call =
        detail::reduce_call<T>(operation::reduce_scatter, in.size(), how, in.data(), out.data());
    if (out.data() != in.data() + chunk_begin(in.size(), size(), member_)) require_apart(call, in.size(), chunk);
    return call;
  }

  template <class T>
  detail::collective_call all_to_all_call(std::span<T const> in, std::span<T> out) {
    if (in.size() != out.size() || in.size() % size() != 0)
      reject(operation::all_to_all, "in has " + std::to_string(in.size()) + " elements, out has " +
                                        std::to_string(out.size()) + "; both must have the same multiple of " +
                                        std::to_string(size()));
    detail::collective_call call = detail::plain_call<T>(operation::all_to_all, in.size(), in.data(), out.data());
    require_apart(call, in.size(), out.size());
    return call;
  }
  template <class T>
  detail::collective_call all_to_all_call(std::span<T const> in, std::span<std::size_t const> send_counts,
                                          std::span<T> out, std::span<std::size_t const> receive_counts) {
    require_counts("send_counts", send_counts, "in", in.size());
    require_counts("receive_counts", receive_counts, "out", out.size());
    detail::collective_call call = detail::plain_call<T>(operation::all_to_all, 0, in.data(), out.data());
    call.send_counts = send_counts.data();
    call.receive_counts = receive_counts.data();
    require_apart(call, in.size(), out.size());
    return call;
  }
  template <class T>
  detail::collective_call broadcast_call(std::span<T> data, std::size_t root) {
    require_rank(operation::broadcast, "root", root);
    detail::collective_call call = detail::plain_call<T>(operation::broadcast, data.size(), data.data(), data.data());
    call.root = root;
    return call;
  }
  template <class T>
  detail::collective_call all_gather_call(std::span<T const> in, std::span<T> out) {
    require_gather(in, out, 0, 1);
    return detail::plain_call<T>(operation::all_gather, out.size(), in.data(), out.data());
  }
  template <class T>
  detail::collective_call all_gather_call(gather_parts<T> parts) {
    std::size_t all = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      gather_part<T> const& one = parts.data()[i];
      require_gather(one.in, one.out, i, parts.size());
      all += one.out.size();
      for (std::size_t j = 0; j < i; ++j) {
        gather_part<T> const& other = parts.data()[j];
        if (detail::overlap(one.out, other.out) || detail::overlap(one.out, other.in) ||
            detail::overlap(one.in, other.out))
          reject(operation::all_gather, "parts " + std::to_string(j) + " and " + std::to_string(i) + " of " +
                                            std::to_string(parts.size()) + " overlap; pass buffers that are apart");
      }
    }
    return detail::gather_call<T>(parts, all);
  }
  /// Of one all-gather, that of number `part` among `parts`.
  template <class T>
  void require_gather(std::span<T const> in, std::span<T> out, std::size_t part, std::size_t parts) const {
    auto const which = [&] {
      return parts == 1 ? std::string() : "part " + std::to_string(part) + " of " + std::to_string(parts) + ": ";
    };
    std::size_t const chunk = chunk_count(out.size(), size(), member_);
    if (in.size() != chunk)
      reject(operation::all_gather, which() + chunk_text("in", in.size(), chunk, "out", out.size()));
    if (in.data() != out.data() + chunk_begin(out.size(), size(), member_) && detail::overlap(in, out))
      reject(operation::all_gather, which() + "in and out overlap; pass buffers that are apart");
  }

  [[nodiscard]] std::string chunk_text(char const* part, std::size_t has, std::size_t chunk, char const* whole,
                                       std::size_t count) const {
    return std::string(part) + " has " + std::to_string(has) + " elements, " + whole + " has " + std::to_string(count) +
           "; the chunk of rank " + std::to_string(member_) + " of " + std::to_string(size()) + " has " +
           std::to_string(chunk);
  }

  void require_rank(operation op, char const* what, std::size_t rank) const {
    if (rank >= size())
      reject(op, std::string(what) + " is " + std::to_string(rank) + ", but the communicator has " +
                     std::to_string(size()) + " ranks");
  }

  void require_counts(char const* counts_name, std::span<std::size_t const> counts, char const* name,
                      std::size_t elements) const {
    std::size_t sum = 0;
    for (std::size_t const count : counts) sum += count;
    if (counts.size() != size() || sum != elements)
      reject(operation::all_to_all, std::string(counts_name) + " has " + std::to_string(counts.size()) +
                                        " entries of sum " + std::to_string(sum) + "; it needs one entry for each of " +
                                        std::to_string(size()) + " ranks, and " + name + " has " +
                                        std::to_string(elements) + " elements");
  }

  void require_apart(detail::collective_call const& call, std::size_t in_count, std::size_t out_count) const {
    if (detail::overlap(call.in, in_count * call.element_size, call.out, out_count * call.element_size))
      reject(call.op, "in and out overlap; pass buffers that are apart");
  }

  [[noreturn]] void reject(operation op, std::string const& text) const {
    group_->world().fail_and_throw({detail::failure_kind::rank, world_rank(),
                                    "rank " + std::to_string(world_rank()) + " failed: " + name_of(op) + " on " +
                                        detail::in_quotes(name()) + ": " + text,
                                    nullptr});
  }

  std::shared_ptr<detail::thread_group> group_;
  std::size_t member_;
};

}  // namespace heddle::comm
