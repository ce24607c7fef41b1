// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <heddle/backend/cuda/detail/nccl_context.hpp>
#include <heddle/comm/counters.hpp>
#include <heddle/comm/detail/call_checks.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::cuda::detail {

/// A process group over NCCL, as one rank has it.
struct nccl_group {
  std::shared_ptr<nccl_context> context;
  nccl_link* link = nullptr;         ///< of its collectives
  std::string name, key;             ///< the key is the same on all members, and no other group's
  std::vector<std::size_t> members;  ///< ranks of the run, in order
  std::size_t member = 0;
  std::mutex mutex{};
  comm::communication_counters counters{};
  std::uint64_t number = 0, splits = 0;
  std::map<std::string, std::uint64_t> subsets{};
};

/// One rank's side of it: it checks the arguments of calls, and gives them to NCCL.
class nccl_rank : public comm::detail::call_checks<nccl_rank> {
 public:
  static constexpr bool gathers_rows = false;

  using collective_call = comm::detail::collective_call;

  explicit nccl_rank(std::shared_ptr<nccl_group> group) : group_(std::move(group)) {}

  [[nodiscard]] std::size_t member() const { return group_->member; }
  [[nodiscard]] std::size_t size() const { return group_->members.size(); }
  [[nodiscard]] std::string const& name() const { return group_->name; }
  [[nodiscard]] std::size_t world_rank() const { return group_->members[member()]; }
  [[nodiscard]] comm::communication_counters counters() const {
    std::lock_guard const lock(group_->mutex);
    return group_->counters;
  }
  [[nodiscard]] std::shared_ptr<nccl_context> const& context() const { return group_->context; }

  /// Refuses a call that must not happen, and counts it, as `calls` calls.
  void begin(comm::operation op, std::size_t calls = 1) {
    if (std::uncaught_exceptions() != 0)
      throw comm::communication_error(std::string(comm::name_of(op)) + " on " + comm::detail::in_quotes(name()) +
                                      " is called while an exception unwinds the stack; a destructor must not "
                                      "communicate then, test std::uncaught_exceptions() first");
    context()->require_running(comm::name_of(op), name());
    std::lock_guard const lock(group_->mutex);
    group_->counters[op].calls += calls;
  }

  /// A collective of this group: NCCL has it now, or will have.
  [[nodiscard]] nccl_call& start(collective_call const& call) {
    require_reducible(call);
    count(call);
    return submit(*group_->link, call);
  }
  /// A transfer, on the link of the ordered pair.
  [[nodiscard]] nccl_call& start(comm::detail::transfer const& one) {
    collective_call call;
    call.op = one.op;
    call.kind = one.kind;
    call.element_size = one.element_size;
    call.count = one.count;
    call.in = one.from;
    call.out = one.to;
    call.root = one.peer;
    if (one.sends()) sent(one.op, one.count, one.element_size);
    std::size_t const from = one.sends() ? one.self : one.peer, to = one.sends() ? one.peer : one.self;
    return submit(context()->link(group_->key + '/' + std::to_string(from) + '>' + std::to_string(to),
                                  {group_->members[from], group_->members[to]}, one.sends() ? 0 : 1),
                  call);
  }

  [[nodiscard]] std::shared_ptr<nccl_group> split(std::size_t color, std::size_t key, std::string_view label) {
    begin(comm::operation::split);
    require_int("color", color);
    require_int("key", key);
    collective_call call;
    call.op = comm::operation::split;
    call.color = color;
    call.key = key;
    call.label = label.empty() ? std::string_view(name()) : label;
    nccl_call& one = submit(*group_->link, call);
    context()->follow(one);
    ncclComm_t const made = one.made;
    context()->give(one);
    auto group = std::make_shared<nccl_group>();
    group->context = context();
    group->name = call.label;
    group->key = group_->key + '.' + std::to_string(++group_->splits) + '.' + std::to_string(color);
    group->link = &context()->link(group->key, made);
    context()->connect(*group->link);
    context()->furnish(*group->link, group->link->size());
    group->member = group->link->rank();
    meet(*group);
    return group;
  }

  [[nodiscard]] std::shared_ptr<nccl_group> subset(std::span<std::size_t const> members, std::string_view label) {
    begin(comm::operation::split);
    std::vector<std::size_t> const list(members.begin(), members.end());
    auto group = std::make_shared<nccl_group>();
    group->member = place_in_subset(list);
    group->context = context();
    group->name = label.empty() ? std::string_view(name()) : label;
    for (std::size_t const one : list) group->members.push_back(group_->members[one]);
    std::string const key = comm::detail::list_text(list) + group->name;
    group->key = group_->key + key + '.' + std::to_string(++group_->subsets[key]);
    group->link = &context()->link(group->key, group->members, group->member);
    context()->furnish(*group->link, list.size());
    return group;
  }

  [[noreturn]] void reject(comm::operation op, std::string const& text) const {
    context()->fail_and_throw(comm::detail::failure_kind::rank, "rank " + std::to_string(world_rank()) +
                                                                    " failed: " + comm::name_of(op) + " on " +
                                                                    comm::detail::in_quotes(name()) + ": " + text);
  }

 private:
  [[nodiscard]] nccl_call& submit(nccl_link& link, collective_call const& what) {
    nccl_call& one = context()->begin();
    one.what = what;
    one.group = group_->name;
    one.label = what.label;
    one.what.label = one.label;
    one.number = ++group_->number;
    try {
      context()->submit(link, one);
    } catch (...) {
      context()->give(one);
      throw;
    }
    return one;
  }

  /// What each sends by the algorithms of comm/traffic.hpp.
  void count(collective_call const& call) {
    using comm::operation;
    std::size_t const n = size(), r = member();
    std::size_t elements = 0;
    switch (call.op) {
      case operation::all_reduce:
        elements = comm::all_reduce_sent(call.count, n, r);
        break;
      case operation::reduce_scatter:
        elements = comm::reduce_scatter_sent(call.count, n, r);
        break;
      case operation::all_gather:
        for (std::size_t i = 0; i < call.parts(); ++i) elements += comm::all_gather_sent(call.part(i).count, n, r);
        break;
      case operation::all_to_all:
        if (call.unequal())
          for (std::size_t q = 0; q < n; ++q) elements += q == r ? 0 : call.send_counts[q];
        else
          elements = comm::all_to_all_sent(call.count, n);
        break;
      case operation::broadcast:
        elements = comm::broadcast_sent(call.count, n, r, call.root);
        break;
      default:
        return;
    }
    sent(call.op, elements, call.element_size);
  }
  void sent(comm::operation op, std::size_t elements, std::size_t element_size) {
    std::lock_guard const lock(group_->mutex);
    group_->counters[op].elements_sent += elements;
    group_->counters[op].bytes_sent += elements * element_size;
  }

  /// Of more ranks than one launch joins, a partial sum would be rounded.
  void require_reducible(collective_call const& call) const {
    bool const half = call.kind == comm::element_kind::float16 || call.kind == comm::element_kind::bfloat16;
    if (half && call.reduces() && call.how == comm::reduction::sum && size() > kernels::most_ranks &&
        !context()->options().sums_of_16_bits_round_on_the_way)
      reject(call.op, std::string("a sum of ") + comm::name_of(call.kind) + " over " + std::to_string(size()) +
                          " ranks, where at most " + std::to_string(kernels::most_ranks) +
                          " are added in float and rounded once; reduce in float32, or set "
                          "nccl_options::sums_of_16_bits_round_on_the_way");
  }
  void require_int(char const* what, std::size_t value) const {
    if (value > INT_MAX)
      reject(comm::operation::split,
             std::string(what) + " is " + std::to_string(value) + "; NCCL numbers up to " + std::to_string(INT_MAX));
  }

  /// The members of a new group tell each other who they are, and by which label.
  void meet(nccl_group& group) const {
    std::size_t const n = group.link->size();
    std::array<std::uint64_t, 2> const mine{world_rank(), std::hash<std::string>{}(group.name)};
    meeting_room& room = context()->rooms().take();  // of a meeting that fails it stays taken
    pinned_arena<std::uint64_t> const& host = room.host;
    device_arena<std::uint64_t> const& all = room.device;
    std::copy(mine.begin(), mine.end(), host.data() + 2 * group.member);
    stream const& on = group.link->on();
    copy_to_device<std::uint64_t>(on, {all.data() + 2 * group.member, 2},
                                  std::span<std::uint64_t const>(host.data() + 2 * group.member, 2));
    on.synchronize();
    collective_call call;
    call.op = comm::operation::all_gather;
    call.kind = comm::element_kind::uint64;
    call.element_size = sizeof(std::uint64_t);
    call.count = 2 * n;
    call.in = all.data() + 2 * group.member;
    call.out = all.data();
    nccl_call& one = context()->begin();
    one.what = call;
    one.group = group.name;
    one.number = 0;
    context()->submit(*group.link, one);
    context()->finish(one);
    context()->give(one);
    copy_to_host<std::uint64_t>(on, {host.data(), 2 * n}, std::span<std::uint64_t const>(all.data(), 2 * n));
    on.synchronize();
    for (std::size_t m = 0; m < n; ++m) {
      group.members.push_back(static_cast<std::size_t>(host.data()[2 * m]));
      if (host.data()[2 * m + 1] != mine[1])
        context()->fail_and_throw(
            comm::detail::failure_kind::mismatch,
            "communicator " + comm::detail::in_quotes(name()) + ": rank " + std::to_string(world_rank()) +
                " calls split named " + comm::detail::in_quotes(group.name) + ", and rank " +
                std::to_string(group.members[m]) + " by another name; give one label on all ranks of a color");
    }
    context()->rooms().give(room);
  }

  std::shared_ptr<nccl_group> group_;
};

}  // namespace heddle::cuda::detail
