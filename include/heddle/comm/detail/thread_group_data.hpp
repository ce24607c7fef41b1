// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a thread group that moves data. It runs while a call is committed: every member is inside it.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include <heddle/comm/detail/thread_group.hpp>
#include <heddle/comm/traffic.hpp>

namespace heddle::comm::detail {

inline void thread_group::count_sent(std::size_t m, operation op, std::size_t elements, std::size_t element_size) {
  if (elements == 0) return;
  counter_cell& cell = members_[m].counters[static_cast<std::size_t>(op)];
  cell.elements.fetch_add(elements, std::memory_order_relaxed);
  cell.bytes.fetch_add(elements * element_size, std::memory_order_relaxed);
}

/// Copies `count` elements of `source`, which are at `from` in what it gives, to `to` in the result of `m`. With a
/// tally the caller adds the counts itself, in one go. `part` is which of the all-gathers that the call makes.
inline void thread_group::copy_block(std::size_t m, std::size_t source, std::size_t from, std::size_t to,
                                     std::size_t count, std::uint64_t* tally, std::size_t part) {
  if (count == 0) return;
  collective_call const& mine = members_[m].call;
  collective_call const& other = members_[source].call;
  // the second half of an all-reduce gives what the first half left in the result
  void const* const given = other.op == operation::all_reduce ? other.part(part).out : other.part(part).in;
  char const* const begin = static_cast<char const*>(given) + from * mine.element_size;
  char* const end = static_cast<char*>(mine.part(part).out) + to * mine.element_size;
  if (begin != end) {
    if (mover_ != nullptr) {
      mover_->copy(begin, end, count * mine.element_size);
    } else {
      std::memcpy(end, begin, count * mine.element_size);
    }
  }
  count_read(m, source, count, tally);
}
inline void thread_group::count_read(std::size_t m, std::size_t source, std::size_t count, std::uint64_t* tally) {
  collective_call const& mine = members_[m].call;
  if (source == m) return;
  if (tally != nullptr) {
    tally[source] += count;
  } else {
    count_sent(source, mine.op, count, mine.element_size);
  }
}

/// The rows of `source`, `piece` elements each, to where they belong among the rows of all in the result of `m`.
inline void thread_group::copy_rows(std::size_t m, std::size_t source, std::size_t piece, std::uint64_t* tally,
                                    std::size_t part) {
  collective_call const& mine = members_[m].call;
  call_part const to = mine.part(part);
  std::size_t const bytes = piece * mine.element_size;
  if (bytes == 0) return;
  char const* in = static_cast<char const*>(members_[source].call.part(part).in);
  char* out = static_cast<char*>(to.out) + source * bytes;
  for (std::size_t row = 0; row < to.rows; ++row, in += bytes, out += size() * bytes) std::memcpy(out, in, bytes);
  count_read(m, source, to.rows * piece, tally);
}

/// Elements [begin, begin + count) of all members' buffers, joined.
inline void thread_group::join_block(collective_call const& call, std::size_t begin, std::size_t count, void* out) {
  if (mover_ != nullptr) {
    mover_->join(call.join, sources_.data(), size(), begin, count, &out, 1);
  } else {
    call.reduce(sources_.data(), size(), begin, count, out);
  }
}

/// Calls `use(part, from, count)` for the elements [begin, begin + count) of a value in parts: so many of a part, from
/// `from` on.
template <class Use>
void for_each_piece(collective_call const& call, std::size_t begin, std::size_t count, Use use) {
  std::size_t at = 0;
  for (std::size_t part = 0; part < call.parts(); ++part) {
    std::size_t const size = call.part(part).count;
    std::size_t const first = begin > at ? begin : at;
    std::size_t const last = begin + count < at + size ? begin + count : at + size;
    if (first < last) use(part, first - at, last - first);
    at += size;
  }
}

/// The same into pieces of member `m`: of an all-reduce, whose operands are in such pieces, too, or all of the member's
/// chunk, which begins at `begin` of the operands.
inline void thread_group::join_pieces(std::size_t m, std::size_t begin, std::size_t count) {
  collective_call const& mine = members_[m].call;
  bool const chunk = mine.op == operation::reduce_scatter;
  std::size_t done = 0;
  for_each_piece(mine, chunk ? 0 : begin, count, [&](std::size_t part, std::size_t from, std::size_t some) {
    char* const out = static_cast<char*>(mine.part(part).out) + from * mine.element_size;
    if (chunk) {
      mine.reduce(sources_.data(), size(), begin + done, some, out);
      done += some;
      return;
    }
    void const** const sources = in_piece_.data() + m * size();
    for (std::size_t q = 0; q < size(); ++q) sources[q] = members_[q].call.part(part).in;
    mine.reduce(sources, size(), from, some, out);
  });
}

/// What member `m` does first. It reads the others' buffers and writes only its own.
inline void thread_group::run_first(std::size_t m, std::uint64_t* tally) {
  collective_call const& mine = members_[m].call;
  std::size_t const n = size();
  switch (mine.op) {
    case operation::all_reduce:
    case operation::reduce_scatter: {
      std::size_t const begin = chunk_begin(mine.count, n, m);
      std::size_t const count = chunk_count(mine.count, n, m);
      if (count == 0) return;
      std::size_t const to = mine.op == operation::all_reduce ? begin : 0;
      if (mine.part_of != nullptr)
        join_pieces(m, begin, count);
      else
        join_block(mine, begin, count, static_cast<char*>(mine.out) + to * mine.element_size);
      for (std::size_t q = 0; q < n; ++q) count_read(m, q, count, tally);
      return;
    }
    case operation::all_gather:
      for (std::size_t part = 0; part < mine.parts(); ++part) {
        std::size_t const all = mine.part(part).count, rows = mine.part(part).rows;
        for (std::size_t step = 0; step < n; ++step) {  // start at the own chunk, so that not all read the same one
          std::size_t const q = (m + step) % n;
          if (rows == 1)
            copy_block(m, q, 0, chunk_begin(all, n, q), chunk_count(all, n, q), tally, part);
          else
            copy_rows(m, q, all / (rows * n), tally, part);
        }
      }
      return;
    case operation::all_to_all: {
      if (!mine.unequal()) {
        std::size_t const block = mine.count / n;
        for (std::size_t step = 0; step < n; ++step) {
          std::size_t const q = (m + step) % n;
          copy_block(m, q, m * block, q * block, block, tally);
        }
        return;
      }
      std::size_t to = 0;
      for (std::size_t q = 0; q < n; ++q) {
        std::size_t from = 0;
        for (std::size_t p = 0; p < m; ++p) from += members_[q].call.send_counts[p];
        copy_block(m, q, from, to, mine.receive_counts[q], tally);
        to += mine.receive_counts[q];
      }
      return;
    }
    case operation::broadcast:
      if (m != mine.root) copy_block(m, mine.root, 0, 0, mine.count, tally);
      return;
    case operation::barrier:
    case operation::split:
    case operation::send:
    case operation::receive:
      return;
  }
}

/// What member `m` does after all members have done the first part: the gather half of an all-reduce.
inline void thread_group::run_second(std::size_t m, std::uint64_t* tally) {
  collective_call const& mine = members_[m].call;
  if (mine.op != operation::all_reduce) return;
  std::size_t const n = size();
  for (std::size_t step = 1; step < n; ++step) {
    std::size_t const q = (m + step) % n;
    std::size_t const begin = chunk_begin(mine.count, n, q);
    for_each_piece(mine, begin, chunk_count(mine.count, n, q),
                   [&](std::size_t part, std::size_t from, std::size_t count) {
                     copy_block(m, q, from, from, count, tally, part);
                   });
  }
}

/// The parts of all members, one after the other, on the thread that came last: for a short call this is cheaper than
/// waking the members for their parts.
inline void thread_group::run_whole() {
  collective_call const& any = members_[0].call;
  if (any.op == operation::split) return make_split();
  if (mover_ != nullptr) return run_on_mover();
  if (any.op == operation::barrier) return;
  std::fill(tally_.begin(), tally_.end(), 0);
  for (std::size_t m = 0; m < size(); ++m) run_first(m, tally_.data());
  if (any.op == operation::all_reduce)
    for (std::size_t m = 0; m < size(); ++m) run_second(m, tally_.data());
  for (std::size_t m = 0; m < size(); ++m) count_sent(m, any.op, tally_[m], any.element_size);
}

/// The same where a mover does the work: an all-reduce reads each element once and writes it once, whatever the host's
/// threads would do, and counts as theirs.
inline void thread_group::run_on_mover() {
  collective_call const& any = members_[0].call;
  std::size_t const n = size();
  for (std::size_t m = 0; m < n; ++m) mover_calls_[m] = members_[m].call.on_mover;
  std::fill(tally_.begin(), tally_.end(), 0);
  mover_->begin(mover_calls_.data(), n);
  if (any.op == operation::all_reduce) {
    for (std::size_t m = 0; m < n; ++m) results_[m] = members_[m].call.out;
    if (any.count != 0 && n > 1) mover_->join(any.join, sources_.data(), n, 0, any.count, results_.data(), n);
    for (std::size_t m = 0; m < n; ++m) tally_[m] += all_reduce_sent(any.count, n, m);
  } else {
    for (std::size_t m = 0; m < n; ++m) run_first(m, tally_.data());
  }
  mover_->end();
  for (std::size_t m = 0; m < n; ++m) count_sent(m, any.op, tally_[m], any.element_size);
}

/// One group per color, its members in the order of their keys, then of their ranks here.
inline void thread_group::make_split() {
  auto const before = [this](std::size_t a, std::size_t b) {
    collective_call const& x = members_[a].call;
    collective_call const& y = members_[b].call;
    return x.color != y.color ? x.color < y.color : x.key < y.key;
  };
  // Inserted one by one: a stable sort of the standard library is several thousand bytes of code, for a few ranks.
  std::vector<std::size_t> order;
  order.reserve(size());
  for (std::size_t m = 0; m < size(); ++m) order.insert(std::upper_bound(order.begin(), order.end(), m, before), m);
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    std::vector<std::size_t> ranks;
    for (; end < order.size() && members_[order[end]].call.color == members_[order[begin]].call.color; ++end)
      ranks.push_back(members_[order[end]].rank);
    auto const group =
        std::make_shared<thread_group>(world_, std::string(members_[order[begin]].call.label), std::move(ranks));
    world_->add(group);
    for (std::size_t k = begin; k < end; ++k) {
      *members_[order[k]].call.made = group;
      *members_[order[k]].call.made_rank = k - begin;
    }
    begin = end;
  }
}

}  // namespace heddle::comm::detail
