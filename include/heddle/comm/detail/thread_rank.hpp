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

#include <heddle/comm/detail/call_checks.hpp>
#include <heddle/comm/thread_handle.hpp>

namespace heddle::comm::detail {

/// One rank's side of a thread group: it checks the arguments of calls, builds what is compared between the ranks, and
/// hands it to the group. Communicators of thread ranks are made of it; where their buffers lie is theirs to say.
class thread_rank : public call_checks<thread_rank> {
 public:
  static constexpr bool gathers_rows = true;

  thread_rank(std::shared_ptr<thread_group> group, std::size_t member) : group_(std::move(group)), member_(member) {}

  [[nodiscard]] thread_group& group() const { return *group_; }
  [[nodiscard]] std::size_t member() const { return member_; }
  [[nodiscard]] std::size_t size() const { return group_->size(); }
  [[nodiscard]] std::string const& name() const { return group_->name(); }
  [[nodiscard]] std::size_t world_rank() const { return group_->world_rank(member_); }

  /// Refuses a call that must not happen, and counts it, as `calls` calls.
  void begin(operation op, std::size_t calls = 1) {
    if (std::uncaught_exceptions() != 0)
      throw communication_error(joined_text({name_of(op), " on ", in_quotes(name()),
                                             " is called while an exception unwinds the stack; a destructor must not "
                                             "communicate then, test std::uncaught_exceptions() first"}));
    thread_world& world = group_->world();
    if (world.failed()) world.throw_failure();
    thread_engine const& engine = group_->engine(member_);
    if (engine.finished.load(std::memory_order_relaxed))
      throw communication_error(
          joined_text({name_of(op), " on ", in_quotes(name()),
                       " is called after its run; a communicator must not outlive the rank's function"}));
    if (engine.abandoned()) world.fail_and_throw({failure_kind::rank, engine.rank(), engine.abandoned_text(), nullptr});
    group_->count_call(member_, op, calls);
  }

  /// What this rank did in the group so far.
  [[nodiscard]] communication_counters counters() const { return group_->counters(member_); }

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

  /// This rank in the group that the members make that pass one color: a collective.
  [[nodiscard]] thread_rank split(std::size_t color, std::size_t key, std::string_view label) {
    begin(operation::split);
    std::shared_ptr<thread_group> made;
    std::size_t made_rank = 0;
    collective_call call;
    call.op = operation::split;
    call.color = color;
    call.key = key;
    call.label = label.empty() ? std::string_view(name()) : label;
    call.made = &made;
    call.made_rank = &made_rank;
    run(call);
    return {std::move(made), made_rank};
  }

  [[nodiscard]] thread_rank subset(std::span<std::size_t const> members, std::string_view label) {
    begin(operation::split);
    std::vector<std::size_t> const list(members.begin(), members.end());
    std::size_t const made_rank = place_in_subset(list);
    return {group_->subset(member_, list, label.empty() ? name() : std::string(label)), made_rank};
  }

 private:
  friend class call_checks<thread_rank>;
  [[noreturn, gnu::cold]] void reject(operation op, std::string const& text) const {
    group_->world().fail_and_throw(
        {failure_kind::rank, world_rank(),
         joined_text({"rank ", world_rank(), " failed: ", name_of(op), " on ", in_quotes(name()), ": ", text}),
         nullptr});
  }

  std::shared_ptr<thread_group> group_;
  std::size_t member_;
};

}  // namespace heddle::comm::detail
