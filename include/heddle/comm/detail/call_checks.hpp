// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <heddle/comm/detail/thread_transfer.hpp>
#include <heddle/comm/detail/typed_call.hpp>
#include <heddle/comm/traffic.hpp>

namespace heddle::comm::detail {

/// Checks the arguments of one rank's calls, and builds what the calls are. `Rank` has `member()` and `size()`, and
/// `reject(operation, text)`, which ends the run and throws.
template <class Rank>
class call_checks {
 public:
  template <class T>
  void prepare(transfer& one, operation op, std::size_t peer, void const* from, void* to, std::size_t count) {
    require_element<T>();
    require_rank(op, op == operation::send ? "destination" : "source", peer);
    if (peer == member()) reject(op, joined_text({"rank ", peer, " cannot exchange with itself; copy instead"}));
    one.op = op;
    one.kind = element_kind_of<T>;
    one.element_size = sizeof(T);
    one.count = count;
    one.from = from;
    one.to = to;
    one.self = member();
    one.peer = peer;
  }

  template <class T>
  [[nodiscard]] collective_call reduce_scatter_call(std::span<T const> in, std::span<T> out, reduction how) {
    std::size_t const chunk = chunk_count(in.size(), size(), member());
    if (out.size() != chunk) reject(operation::reduce_scatter, chunk_text("out", out.size(), chunk, "in", in.size()));
    collective_call const call = reduce_call<T>(operation::reduce_scatter, in.size(), how, in.data(), out.data());
    if (out.data() != in.data() + chunk_begin(in.size(), size(), member())) require_apart(call, in.size(), chunk);
    return call;
  }

  template <class T>
  [[nodiscard]] collective_call all_reduce_call(pieces<T> data, reduction how) {
    require_apart(operation::all_reduce, data, {});
    return reduce_call_of<T>(operation::all_reduce, data.elements(), how, nullptr, data);
  }
  template <class T>
  [[nodiscard]] collective_call reduce_scatter_call(std::span<T const> in, pieces<T> out, reduction how) {
    std::size_t const chunk = chunk_count(in.size(), size(), member());
    if (out.elements() != chunk)
      reject(operation::reduce_scatter, chunk_text("out", out.elements(), chunk, "in", in.size()));
    require_apart(operation::reduce_scatter, out, in);
    return reduce_call_of<T>(operation::reduce_scatter, in.size(), how, in.data(), out);
  }

  template <class T>
  [[nodiscard]] collective_call all_to_all_call(std::span<T const> in, std::span<T> out) {
    if (in.size() != out.size() || in.size() % size() != 0)
      reject(operation::all_to_all, joined_text({"in has ", in.size(), " elements, out has ", out.size(),
                                                 "; both must have the same multiple of ", size()}));
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
      require_rows(one, i);
      all += one.out.size();
      for (std::size_t j = 0; j < i; ++j) {
        gather_part<T> const& other = parts.data()[j];
        if (overlap(one.out, other.out) || overlap(one.out, other.in) || overlap(one.in, other.out))
          reject(operation::all_gather,
                 joined_text({"parts ", j, " and ", i, " of ", parts.size(), " overlap; pass buffers that are apart"}));
      }
    }
    return gather_call<T>(parts, all);
  }

 protected:
  /// Where this rank comes in the list; its members alone may ask for a subset.
  [[nodiscard]] std::size_t place_in_subset(std::vector<std::size_t> const& list) const {
    std::vector<bool> named(size());
    std::size_t place = list.size();
    for (std::size_t k = 0; k < list.size(); ++k) {
      require_rank(operation::split, "a member of a subset", list[k]);
      if (named[list[k]]) reject(operation::split, joined_text({"subset ", list_text(list), " names a rank twice"}));
      named[list[k]] = true;
      if (list[k] == member()) place = k;
    }
    if (place == list.size())
      reject(operation::split, joined_text({"subset ", list_text(list), " is asked for by rank ", member(),
                                            ", which is not in it; let only its members call"}));
    return place;
  }

 private:
  /// Of one all-gather, that of number `part` among `parts`.
  template <class T>
  void require_gather(std::span<T const> in, std::span<T> out, std::size_t part, std::size_t parts) const {
    std::size_t const chunk = chunk_count(out.size(), size(), member());
    if (in.size() != chunk) reject_gather(part, parts, chunk_text("in", in.size(), chunk, "out", out.size()));
    if (in.data() != out.data() + chunk_begin(out.size(), size(), member()) && overlap(in, out))
      reject_gather(part, parts, "in and out overlap; pass buffers that are apart");
  }
  [[noreturn, gnu::cold]] void reject_gather(std::size_t part, std::size_t parts, std::string const& why) const {
    reject(operation::all_gather, parts == 1 ? why : joined_text({"part ", part, " of ", parts, ": ", why}));
  }

  /// Of the all-gather of number `part`.
  template <class T>
  void require_rows(gather_part<T> const& one, std::size_t part) const {
    if (one.rows == 1) return;
    auto const refuse = [&](std::string const& why) {
      reject(operation::all_gather, joined_text({"part ", part, " has ", one.rows, " rows, ", why}));
    };
    if (!Rank::gathers_rows) refuse("which this communicator does not take; gather into a buffer, and copy");
    if (one.rows == 0 || one.out.size() % (one.rows * size()) != 0)
      refuse(joined_text({"and out ", one.out.size(), " elements; pass a multiple of rows times ranks"}));
    if (overlap(one.in, one.out)) refuse("and in and out overlap; pass buffers that are apart");
  }

  [[nodiscard, gnu::cold]] std::string chunk_text(char const* part, std::size_t has, std::size_t chunk,
                                                  char const* whole, std::size_t count) const {
    return joined_text({part, " has ", has, " elements, ", whole, " has ", count, "; the chunk of rank ", member(),
                        " of ", size(), " has ", chunk});
  }

  void require_rank(operation op, char const* what, std::size_t rank) const {
    if (rank >= size()) reject(op, joined_text({what, " is ", rank, ", but the communicator has ", size(), " ranks"}));
  }

  void require_counts(char const* counts_name, std::span<std::size_t const> counts, char const* name,
                      std::size_t elements) const {
    std::size_t sum = 0;
    for (std::size_t const count : counts) sum += count;
    if (counts.size() != size() || sum != elements)
      reject(operation::all_to_all, joined_text({counts_name, " has ", counts.size(), " entries of sum ", sum,
                                                 "; it needs one entry for each of ", size(), " ranks, and ", name,
                                                 " has ", elements, " elements"}));
  }

  void require_apart(collective_call const& call, std::size_t in_count, std::size_t out_count) const {
    if (overlap(call.in, in_count * call.element_size, call.out, out_count * call.element_size))
      reject(call.op, "in and out overlap; pass buffers that are apart");
  }

  /// Pieces from each other, and from `in`.
  template <class T>
  void require_apart(operation op, pieces<T> list, std::span<T const> in) const {
    for (std::size_t i = 0; i < list.size(); ++i) {
      bool apart = !overlap(list[i], in);
      for (std::size_t j = 0; j < i; ++j) apart = apart && !overlap(list[i], list[j]);
      if (!apart)
        reject(op, joined_text({"piece ", i, " of ", list.size(),
                                " overlaps another or the operand; pass buffers that are apart"}));
    }
  }

  [[nodiscard]] Rank const& self() const { return static_cast<Rank const&>(*this); }
  [[nodiscard]] std::size_t member() const { return self().member(); }
  [[nodiscard]] std::size_t size() const { return self().size(); }
  [[noreturn, gnu::cold]] void reject(operation op, std::string const& text) const { self().reject(op, text); }
};

}  // namespace heddle::comm::detail
