// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a call is for NCCL.
#include <algorithm>
#include <array>
#include <cstddef>
#include <heddle/backend/cuda/detail/device_mover.hpp>
#include <heddle/backend/cuda/detail/nccl_link.hpp>
#include <heddle/backend/cuda/detail/nccl_types.hpp>
#include <heddle/backend/cuda/nccl_options.hpp>
#include <heddle/comm/traffic.hpp>

namespace heddle::cuda::detail {

/// Gives one call to NCCL, on the stream of the link: where NCCL does what a communicator promises, as one of its
/// collectives; else in parts that do. Parts that must not wait for each other are one group.
class nccl_issue {
 public:
  nccl_issue(nccl_link& link, nccl_call& call, nccl_options const& options)
      : link_(link),
        call_(call),
        what_(call.what),
        options_(options),
        size_(link.size()),
        rank_(link.rank()),
        units_(nccl_units_of(what_.kind, what_.element_size)) {}

  /// The first step of a call, or the next one when NCCL is done with that before; whether there is another.
  [[nodiscard]] bool operator()(unsigned step) {
    using comm::operation;
    bool const reduces = what_.reduces();
    if (!reduces || by_nccl(what_, options_) || what_.count == 0) {
      if (what_.count != 0 || !reduces) whole();
      return false;
    }
    bool const scatters = what_.op == operation::reduce_scatter;
    unsigned char* const mine = out_at(scatters ? 0 : begin(what_.count, rank_));
    if (step != 0) join(step - 1, mine);
    if (step < pieces()) {
      exchange(step);
      return true;
    }
    if (!scatters) grouped([&] { gather({mine, what_.out, what_.count}); });
    return false;
  }

 private:
  void whole() {
    using comm::operation;
    switch (what_.op) {
      case operation::all_reduce:
        return took(ncclAllReduce(what_.in, what_.out, what_.count, *nccl_type_of(what_.kind), nccl_op_of(what_.how),
                                  link_.get(), on()),
                    "ncclAllReduce");
      case operation::reduce_scatter:
        return reduce_scatter();
      case operation::all_gather:
        return grouped([this] {
          for (std::size_t i = 0; i < what_.parts(); ++i) gather(what_.part(i));
        });
      case operation::all_to_all:
        return all_to_all();
      case operation::broadcast:
        if (what_.count != 0)
          took(ncclBroadcast(what_.in, what_.out, units(what_.count), units_.type, root(what_.root), link_.get(), on()),
               "ncclBroadcast");
        return;
      case operation::barrier:
        return took(ncclAllReduce(link_.room_at(), link_.room_at(), 1, ncclInt32, ncclMax, link_.get(), on()),
                    "ncclAllReduce");
      case operation::split:
        return took(ncclCommSplit(link_.get(), static_cast<int>(what_.color), static_cast<int>(what_.key), &call_.made,
                                  nullptr),
                    "ncclCommSplit");
      // A transfer has a communicator of two ranks, in which the receiver is rank 1.
      case operation::send:
        if (what_.count != 0)
          took(ncclSend(what_.in, units(what_.count), units_.type, 1, link_.get(), on()), "ncclSend");
        return;
      case operation::receive:
        if (what_.count != 0)
          took(ncclRecv(what_.out, units(what_.count), units_.type, 0, link_.get(), on()), "ncclRecv");
        return;
    }
  }

  [[nodiscard]] cudaStream_t on() const { return link_.on().get(); }
  [[nodiscard]] std::size_t units(std::size_t elements) const { return elements * units_.each; }
  [[nodiscard]] static int root(std::size_t rank) { return static_cast<int>(rank); }
  [[nodiscard]] unsigned char const* in_at(std::size_t element) const {
    return static_cast<unsigned char const*>(what_.in) + element * what_.element_size;
  }
  [[nodiscard]] unsigned char* out_at(std::size_t element) const {
    return static_cast<unsigned char*>(what_.out) + element * what_.element_size;
  }
  [[nodiscard]] std::size_t chunk(std::size_t count, std::size_t rank) const {
    return comm::chunk_count(count, size_, rank);
  }
  [[nodiscard]] std::size_t begin(std::size_t count, std::size_t rank) const {
    return comm::chunk_begin(count, size_, rank);
  }
  void took(ncclResult_t status, char const* call, source_place place = source_place::here()) const {
    link_.took(status, call, place);
  }

  template <class Body>
  void grouped(Body const& body) const {
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    try {
      body();
    } catch (...) {
      (void)ncclGroupEnd();  // the exception says what went wrong
      throw;
    }
    took(ncclGroupEnd(), "ncclGroupEnd");
  }

  /// One all-gather. Chunks that differ in length are broadcast, each by its rank: NCCL's has one length.
  void gather(comm::detail::call_part const& part) const {
    std::size_t const count = part.count;
    if (count % size_ == 0) {
      if (count != 0)
        took(ncclAllGather(part.in, part.out, units(count / size_), units_.type, link_.get(), on()), "ncclAllGather");
      return;
    }
    for (std::size_t r = 0; r < size_; ++r) {
      if (chunk(count, r) == 0) continue;
      unsigned char* const to = static_cast<unsigned char*>(part.out) + begin(count, r) * what_.element_size;
      took(
          ncclBroadcast(r == rank_ ? part.in : to, to, units(chunk(count, r)), units_.type, root(r), link_.get(), on()),
          "ncclBroadcast");
    }
  }

  void all_to_all() const {
    grouped([this] {
      std::size_t from = 0, to = 0;
      for (std::size_t r = 0; r < size_; ++r) {
        std::size_t const sent = what_.unequal() ? what_.send_counts[r] : what_.count / size_;
        std::size_t const received = what_.unequal() ? what_.receive_counts[r] : what_.count / size_;
        if (sent != 0) took(ncclSend(in_at(from), units(sent), units_.type, root(r), link_.get(), on()), "ncclSend");
        if (received != 0)
          took(ncclRecv(out_at(to), units(received), units_.type, root(r), link_.get(), on()), "ncclRecv");
        from += sent;
        to += received;
      }
    });
  }

  [[nodiscard]] static bool by_nccl(comm::detail::collective_call const& what, nccl_options const& options) {
    return nccl_reduces(what.kind, what.how, options.sums_of_16_bits_round_on_the_way);
  }

  void reduce_scatter() {
    ncclDataType_t const type = *nccl_type_of(what_.kind);
    ncclRedOp_t const how = nccl_op_of(what_.how);
    if (what_.count % size_ == 0) {
      took(ncclReduceScatter(what_.in, what_.out, what_.count / size_, type, how, link_.get(), on()),
           "ncclReduceScatter");
      return;
    }
    // Chunks that differ in length are reduced each to its rank.
    grouped([&] {
      for (std::size_t r = 0; r < size_; ++r)
        if (chunk(what_.count, r) != 0)
          took(ncclReduce(in_at(begin(what_.count, r)), what_.out, chunk(what_.count, r), type, how, root(r),
                          link_.get(), on()),
               "ncclReduce");
    });
  }

  // What is not NCCL's to reduce goes in pieces of each rank's chunk, as many as fit into the link's room beside those
  // of all ranks: so no call needs more of the device than there is.
  [[nodiscard]] std::size_t stride() const { return link_.room() / size_ / 16 * 16; }
  [[nodiscard]] std::size_t piece() const { return stride() / what_.element_size; }
  [[nodiscard]] std::size_t pieces() const { return (chunk(what_.count, 0) + piece() - 1) / piece(); }
  /// Elements of piece p of the chunk of that rank.
  [[nodiscard]] std::size_t length(std::size_t p, std::size_t rank) const {
    std::size_t const all = chunk(what_.count, rank);
    return p * piece() < all ? std::min(piece(), all - p * piece()) : 0;
  }
  /// What is joined in several launches must not lie where the result does.
  [[nodiscard]] bool own_lies_apart() const { return size_ > kernels::most_ranks; }

  /// Piece p of each chunk to whom it is for.
  void exchange(std::size_t p) {
    std::size_t const mine = length(p, rank_);
    unsigned char* const room = link_.room_at();
    grouped([&] {
      for (std::size_t r = 0; r < size_; ++r) {
        if (r == rank_ && !own_lies_apart()) continue;
        if (length(p, r) != 0)
          took(ncclSend(in_at(begin(what_.count, r) + p * piece()), units(length(p, r)), units_.type, root(r),
                        link_.get(), on()),
               "ncclSend");
        if (mine != 0)
          took(ncclRecv(room + r * stride(), units(mine), units_.type, root(r), link_.get(), on()), "ncclRecv");
      }
    });
  }

  /// Piece p of `chunk_out` = the join of what all ranks sent, in their order, rounded once.
  void join(std::size_t p, unsigned char* chunk_out) {
    std::size_t const mine = length(p, rank_);
    if (mine == 0) return;
    void* out = chunk_out + p * piece() * what_.element_size;
    unsigned char const* const room = link_.room_at();
    std::array<void const*, kernels::most_ranks> from{};
    for (std::size_t done = 0; done < size_;) {
      std::size_t n = 0;
      if (done != 0) from[n++] = out;
      for (; n < from.size() && done < size_; ++done) {
        bool const own = done == rank_ && !own_lies_apart();
        from[n++] = own ? in_at(begin(what_.count, rank_) + p * piece()) : room + done * stride();
      }
      reinterpret_cast<device_join>(what_.join)(link_.on(), from.data(), n, 0, mine, &out, 1);
    }
  }

  nccl_link& link_;
  nccl_call& call_;
  comm::detail::collective_call const& what_;
  nccl_options const& options_;
  std::size_t size_, rank_;
  nccl_units units_;
};

}  // namespace heddle::cuda::detail
