// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/comm/detail/typed_call.hpp>
#include <heddle/comm/thread_handle.hpp>
#include <heddle/comm/traffic.hpp>

namespace heddle::comm::detail {

/// One rank's side of a thread group: it checks the arguments of calls, builds what is compared between the ranks, and
/// hands it to the group. Communicators of thread ranks are made of it; where their buffers lie is theirs to say.
class thread_rank {
 public:
  thread_rank(std::shared_ptr<thread_group> group, std::size_t member) : group_(std::move(group)), member_(member) {}

  [[nodiscard]] thread_group& group() const { return *group_; }
  [[nodiscard]] std::size_t member() const { return member_; }
  [[nodiscard]] std::size_t size() const { return group_->size(); }
  [[nodiscard]] std::string const& name() const { return group_->name(); }
  [[nodiscard]] std::size_t world_rank() const { return group_->world_rank(member_); }

  /// Refuses a call that must not happen, and counts it, as `calls` calls.
  void begin(operation op, std::size_t calls = 1) {
    if (std::uncaught_exceptions() != 0)
      throw communication_error(std::string(name_of(op)) + " on " + in_quotes(name()) +
                                " is called while an exception unwinds the stack; a destructor must not communicate "
                                "then, test std::uncaught_exceptions() first");
    thread_world& world = group_->world();
    if (world.failed()) world.throw_failure();
    thread_engine const& engine = group_->engine(member_);
    if (engine.finished.load(std::memory_order_relaxed))
      throw communication_error(std::string(name_of(op)) + " on " + in_quotes(name()) +
                                " is called after its run; a communicator must not outlive the rank's function");
    if (engine.abandoned()) world.fail_and_throw({failure_kind::rank, engine.rank(), engine.abandoned_text(), nullptr});
    group_->count_call(member_, op, calls);
  }

  void run(collective_call const& call) {
    group_->engine(member_).drain(*group_, member_);
    group_->collective(member_, call);
  }

  [[nodiscard]] thread_handle start(collective_call const& call) {
    async_record& record = group_->engine(member_).take();
    record.transfers = false;
    record.call = call;
    record.group = group_.get();
    record.member = member_;
    group_->engine(member_).submit(record);
    return {group_, record};
  }

  void run(transfer& one) {
    group_->post(one);
    group_->wait(one);
  }

  template <class T>
  [[nodiscard]] thread_handle start_transfer(operation op, std::size_t peer, void const* from, void* to,
                                             std::size_t count, mover_call* on_mover = nullptr) {
    thread_engine& engine = group_->engine(member_);
    async_record& record = engine.take();
    record.transfers = true;
    record.group = group_.get();
    record.member = member_;
    try {
      prepare<T>(record.move, op, peer, from, to, count);
      record.move.on_mover = on_mover;
      group_->post(record.move);
    } catch (...) {
      engine.give(record);
      throw;
    }
    return {group_, record};
  }

  /// A collective in which the members that pass one color become a group, which it returns with the place in it.
  [[nodiscard]] std::pair<std::shared_ptr<thread_group>, std::size_t> split(std::size_t color, std::size_t key,
                                                                            std::string_view label) {
    begin(operation::split);
    std::pair<std::shared_ptr<thread_group>, std::size_t> made{nullptr, 0};
    collective_call call;
    call.op = operation::split;
    call.color = color;
    call.key = key;
    call.label = label.empty() ? std::string_view(name()) : label;
    call.made = &made.first;
    call.made_rank = &made.second;
    run(call);
    return made;
  }

  [[nodiscard]] std::pair<std::shared_ptr<thread_group>, std::size_t> subset(std::span<std::size_t const> members,
                                                                             std::string_view label) {
    begin(operation::split);
    std::vector<std::size_t> const list(members.begin(), members.end());
    std::vector<bool> named(size());
    std::size_t made_rank = list.size();
    for (std::size_t k = 0; k < list.size(); ++k) {
      require_rank(operation::split, "a member of a subset", list[k]);
      if (named[list[k]]) reject(operation::split, "subset " + list_text(list) + " names a rank twice");
      named[list[k]] = true;
      if (list[k] == member_) made_rank = k;
    }
    if (made_rank == list.size())
      reject(operation::split, "subset " + list_text(list) + " is asked for by rank " + std::to_string(member_) +
                                   ", which is not in it; let only its members call");
    return {group_->subset(member_, list, label.empty() ? name() : std::string(label)), made_rank};
  }

  template <class T>
  void prepare(transfer& one, operation op, std::size_t peer, void const* from, void* to, std::size_t count) {
    require_element<T>();
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
  [[nodiscard]] collective_call reduce_scatter_call(std::span<T const> in, std::span<T> out, reduction how) {
    std::size_t const chunk = chunk_count(in.size(), size(), member_);
    if (out.size() != chunk) reject(operation::reduce_scatter, chunk_text("out", out.size(), chunk, "in", in.size()));
    collective_call const call = reduce_call<T>(operation::reduce_scatter, in.size(), how, in.data(), out.data());
    if (out.data() != in.data() + chunk_begin(in.size(), size(), member_)) require_apart(call, in.size(), chunk);
    return call;
  }

  template <class T>
  [[nodiscard]] collective_call all_to_all_call(std::span<T const> in, std::span<T> out) {
    if (in.size() != out.size() || in.size() % size() != 0)
      reject(operation::all_to_all, "in has " + std::to_string(in.size()) + " elements, out has " +
                                        std::to_string(out.size()) + "; both must have the same multiple of " +
                                        std::to_string(size()));
    collective_call call = plain_call<T>(operation::all_to_all, in.size(), in.data(), out.data());
    require_apart(call, in.size(), out.size());
    return call;
  }
  template <class T>
  [[nodiscard]] collective_call all_to_all_call(std::span<T const> in, std::span<std::size_t const> send_counts,
                                                std::span<T> out, std::span<std::size_t const> receive_counts) {
    require_counts("send_counts", send_counts, "in", in.size());
    require_counts("receive_counts", receive_counts, "out", out.size());
    collective_call call = plain_call<T>(operation::all_to_all, 0, in.data(), out.data());
    call.send_counts = send_counts.data();
    call.receive_counts = receive_counts.data();
    require_apart(call, in.size(), out.size());
    return call;
  }
  template <class T>
  [[nodiscard]] collective_call broadcast_call(std::span<T> data, std::size_t root) {
    require_rank(operation::broadcast, "root", root);
    collective_call call = plain_call<T>(operation::broadcast, data.size(), data.data(), data.data());
    call.root = root;
    return call;
  }
  template <class T>
  [[nodiscard]] collective_call all_gather_call(std::span<T const> in, std::span<T> out) {
    require_gather(in, out, 0, 1);
    return plain_call<T>(operation::all_gather, out.size(), in.data(), out.data());
  }
  template <class T>
  [[nodiscard]] collective_call all_gather_call(gather_parts<T> parts) {
    std::size_t all = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      gather_part<T> const& one = parts.data()[i];
      require_gather(one.in, one.out, i, parts.size());
      all += one.out.size();
      for (std::size_t j = 0; j < i; ++j) {
        gather_part<T> const& other = parts.data()[j];
        if (overlap(one.out, other.out) || overlap(one.out, other.in) || overlap(one.in, other.out))
          reject(operation::all_gather, "parts " + std::to_string(j) + " and " + std::to_string(i) + " of " +
                                            std::to_string(parts.size()) + " overlap; pass buffers that are apart");
      }
    }
    return gather_call<T>(parts, all);
  }

 private:
  /// Of one all-gather, that of number `part` among `parts`.
  template <class T>
  void require_gather(std::span<T const> in, std::span<T> out, std::size_t part, std::size_t parts) const {
    auto const which = [&] {
      return parts == 1 ? std::string() : "part " + std::to_string(part) + " of " + std::to_string(parts) + ": ";
    };
    std::size_t const chunk = chunk_count(out.size(), size(), member_);
    if (in.size() != chunk)
      reject(operation::all_gather, which() + chunk_text("in", in.size(), chunk, "out", out.size()));
    if (in.data() != out.data() + chunk_begin(out.size(), size(), member_) && overlap(in, out))
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

  void require_apart(collective_call const& call, std::size_t in_count, std::size_t out_count) const {
    if (overlap(call.in, in_count * call.element_size, call.out, out_count * call.element_size))
      reject(call.op, "in and out overlap; pass buffers that are apart");
  }

  [[noreturn]] void reject(operation op, std::string const& text) const {
    group_->world().fail_and_throw(
        {failure_kind::rank, world_rank(),
         "rank " + std::to_string(world_rank()) + " failed: " + name_of(op) + " on " + in_quotes(name()) + ": " + text,
         nullptr});
  }

  std::shared_ptr<thread_group> group_;
  std::size_t member_;
};

}  // namespace heddle::comm::detail
