// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a thread group says about itself: messages, and what the watcher looks at. All of it is off the fast path.
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <vector>

#include <heddle/comm/detail/thread_engine.hpp>
#include <heddle/comm/detail/thread_group.hpp>

namespace heddle::comm::detail {

inline std::string thread_group::who(std::size_t m) const { return joined_text({"rank ", members_[m].rank}); }

inline std::string thread_group::who_calls(std::size_t m, std::uint64_t number, collective_call const& call) const {
  return joined_text({who(m), " calls ", describe(call), " (its call ", number, ")"});
}

inline std::string thread_group::describe_transfer(transfer const& one) const {
  return joined_text({who(one.self), one.sends() ? " sends " : " receives ", amount(one.count, one.kind),
                      one.sends() ? " to " : " from ", who(one.peer)});
}

/// Where what rank q receives from rank m differs from what m sends to q.
inline std::string thread_group::unequal_mismatch() const {
  for (std::size_t m = 0; m < size(); ++m) {
    for (std::size_t q = 0; q < size(); ++q) {
      std::size_t const sent = members_[m].call.send_counts[q];
      std::size_t const expected = members_[q].call.receive_counts[m];
      if (sent == expected) continue;
      element_kind const kind = members_[m].call.kind;
      return joined_text({"communicator ", in_quotes(name_), ": all_to_all counts do not match: ", who(m), " sends ",
                          amount(sent, kind), " to ", who(q), "; ", who(q), " receives ", amount(expected, kind),
                          " from ", who(m)});
    }
  }
  return {};
}

/// Who waits in the pending call, and who is missing.
inline std::string thread_group::missing_text() const {
  std::size_t first = 0;
  while (!members_[first].present) ++first;
  std::string waiting;
  std::string missing;
  for (std::size_t m = 0; m < size(); ++m) {
    member const& one = members_[m];
    if (one.present) {
      waiting += joined_text({waiting.empty() ? "" : ", ", who(m)});
      continue;
    }
    missing +=
        joined_text({missing.empty() ? "" : ", ", who(m), " (after ", one.number, " calls",
                     engine(m).finished.load(std::memory_order_acquire) ? ", returned from its function)" : ")"});
  }
  return joined_text({"communicator ", in_quotes(name_), ": ", waiting, " in call ", members_[first].number, ", ",
                      describe(members_[first].call), "; not arrived: ", missing,
                      "; make the same number of calls on every rank"});
}

inline std::string thread_group::waits_for_left_text(transfer const& one) const {
  return joined_text({"communicator ", in_quotes(name_), ": ", describe_transfer(one), ", but ", who(one.peer),
                      " has returned from its function; match every send with a receive"});
}

inline std::string thread_group::unlike_calls_text(std::size_t m, collective_call const& call) const {
  member const& first = members_[first_];
  // In the order of ranks, whichever came first: one mistake has one text.
  std::string const that = who_calls(first_, first.number, first.call),
                    own = who_calls(m, members_[m].number + 1, call);
  return joined_text(
      {"communicator ", in_quotes(name_), ": ranks make calls that do not belong together: ", first_ < m ? that : own,
       "; ", first_ < m ? own : that, first_ < m ? unlike_parts(first.call, call) : unlike_parts(call, first.call),
       "; make the same calls in the same order, with the same counts and types, on every rank"});
}

inline std::string thread_group::unlike_transfers_text(transfer const& a, transfer const& b) const {
  return joined_text({"communicator ", in_quotes(name_), ": a transfer does not match: ", describe_transfer(a), "; ",
                      describe_transfer(b), "; the counts and types of both sides must be equal"});
}

inline std::string thread_group::unlike_subsets_text(std::size_t m, std::vector<std::size_t> const& list,
                                                     std::string const& label, pending_subset const& other) const {
  return joined_text({"communicator ", in_quotes(name_), ": the members of a subset do not agree: ", who(m), " names ",
                      list_text(list), " ", in_quotes(label), ", another member ", list_text(other.list), " ",
                      in_quotes(other.label),
                      "; pass the same ranks in the same order and the same label on every member"});
}

inline std::string thread_group::waits_for_left(std::size_t rank) {
  std::lock_guard lock(mutex_);
  for (std::size_t m = 0; m < size(); ++m) {
    if (members_[m].rank != rank) continue;
    if (arrived_ > 0 && !committed_ && !members_[m].present) return missing_text();
  }
  for (transfer_queue const& posted : queues_)
    for (transfer const* at = posted.head; at != nullptr; at = at->next)
      if (at->waited && members_[at->peer].rank == rank) return waits_for_left_text(*at);
  return {};
}

inline std::string thread_group::stalled(std::chrono::steady_clock::time_point now, std::chrono::milliseconds limit,
                                         std::chrono::milliseconds age, bool& aged) {
  std::lock_guard lock(mutex_);
  // The text is made only when it is needed: this runs beside a program that must not allocate.
  auto const late = [limit](char const* what, std::string const& which) {
    return joined_text({what, " timed out after ", limit.count(), " ms: ", which});
  };
  if (arrived_ > 0 && !committed_) {
    if (seen_pending_ != pending_) {
      seen_pending_ = pending_;
      seen_ = now;
    }
    if (now - seen_ >= age) aged = true;
    if (now - seen_ >= limit) return late("a collective operation", missing_text());
  }
  for (transfer_queue const& posted : queues_) {
    for (transfer* at = posted.head; at != nullptr; at = at->next) {
      if (!at->waited) continue;
      if (at->seen == std::chrono::steady_clock::time_point{}) at->seen = now;
      if (now - at->seen >= age) aged = true;
      if (now - at->seen >= limit)
        return late("a transfer", joined_text({"communicator ", in_quotes(name_), ": ", describe_transfer(*at), "; ",
                                               who(at->peer), " has not called"}));
    }
  }
  return {};
}

inline void thread_group::collect_waits(std::chrono::steady_clock::time_point now, std::chrono::milliseconds age,
                                        std::vector<blocked_wait>& waits) {
  std::lock_guard lock(mutex_);
  auto const next_caller = [this](std::size_t m) {
    std::thread::id const thread =
        has_async(m) ? engine(m).helper_thread.load(std::memory_order_acquire) : members_[m].thread;
    return blocked_wait::awaited_thread{
        members_[m].rank, thread == std::thread::id{} ? engine(m).main_thread.load(std::memory_order_acquire) : thread};
  };
  if (arrived_ > 0 && !committed_ && seen_pending_ == pending_ && now - seen_ >= age) {
    for (std::size_t m = 0; m < size(); ++m) {
      member const& one = members_[m];
      if (!one.present) continue;
      blocked_wait wait;
      wait.rank = one.rank;
      wait.thread = one.token != nullptr ? engine(m).helper_thread.load(std::memory_order_acquire) : one.thread;
      wait.text = joined_text({who_calls(m, one.number, one.call), " on ", in_quotes(name_)});
      for (std::size_t q = 0; q < size(); ++q)
        if (!members_[q].present) wait.awaited.push_back(next_caller(q));
      waits.push_back(std::move(wait));
    }
  }
  for (transfer_queue const& posted : queues_) {
    for (transfer const* at = posted.head; at != nullptr; at = at->next) {
      if (!at->waited || at->seen == std::chrono::steady_clock::time_point{} || now - at->seen < age) continue;
      waits.push_back({members_[at->self].rank,
                       at->waiter,
                       joined_text({describe_transfer(*at), " on ", in_quotes(name_)}),
                       {next_caller(at->peer)}});
    }
  }
}

}  // namespace heddle::comm::detail
