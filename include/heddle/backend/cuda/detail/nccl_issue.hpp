// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a call is for NCCL.
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

  /// How many bytes of the device a call needs beside its buffers, on `rank` of `size`.
  [[nodiscard]] static std::size_t room_of(comm::detail::collective_call const& what, nccl_options const& options,
                                           std::size_t size, std::size_t rank) {
    if (what.op == comm::operation::barrier) return 4;
    if (!what.reduces() || what.count == 0 || by_nccl(what, options)) return 0;
    return size * stride(what, size, rank);
  }

  /// The first step of a call, or the next one when NCCL is done with that before; whether there is another.
  [[nodiscard]] bool operator()(unsigned step) {
    using comm::operation;
    bool const reduces = what_.reduces();
    if (!reduces || by_nccl(what_, options_) || what_.count == 0) {
      if (what_.count != 0 || !reduces) whole();
      return false;
    }
    if (step == 0) {
      exchange();
      return true;
    }
    if (what_.op == operation::reduce_scatter) {
      join(what_.out);
    } else {
      unsigned char* const mine = out_at(begin(what_.count, rank_));
      join(mine);
      grouped([&] { gather({mine, what_.out, what_.count}); });
    }
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
        return took(ncclAllReduce(call_.room, call_.room, 1, ncclInt32, ncclMax, link_.get(), on()), "ncclAllReduce");
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
  void took(ncclResult_t status, char const* call) const { link_.took(status, call); }

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

  [[nodiscard]] static std::size_t stride(comm::detail::collective_call const& what, std::size_t size,
                                          std::size_t rank) {
    return (comm::chunk_count(what.count, size, rank) * what.element_size + 15) / 16 * 16;
  }
  [[nodiscard]] std::size_t stride() const { return stride(what_, size_, rank_); }
  /// What is joined in several launches must not lie where the result does.
  [[nodiscard]] bool own_lies_apart() const { return size_ > kernels::most_ranks; }

  /// Each rank's chunks to whom they are for.
  void exchange() {
    std::size_t const mine = chunk(what_.count, rank_);
    unsigned char* const room = call_.room;
    grouped([&] {
      for (std::size_t r = 0; r < size_; ++r) {
        if (r == rank_ && !own_lies_apart()) continue;
        if (chunk(what_.count, r) != 0)
          took(ncclSend(in_at(begin(what_.count, r)), units(chunk(what_.count, r)), units_.type, root(r), link_.get(),
                        on()),
               "ncclSend");
        if (mine != 0)
          took(ncclRecv(room + r * stride(), units(mine), units_.type, root(r), link_.get(), on()), "ncclRecv");
      }
    });
  }

  /// out = the join of what all ranks sent, in their order, rounded once.
  void join(void* out) {
    std::size_t const mine = chunk(what_.count, rank_);
    if (mine == 0) return;
    unsigned char const* const room = call_.room;
    std::array<void const*, kernels::most_ranks> from{};
    for (std::size_t done = 0; done < size_;) {
      std::size_t n = 0;
      if (done != 0) from[n++] = out;
      for (; n < from.size() && done < size_; ++done) {
        bool const own = done == rank_ && !own_lies_apart();
        from[n++] = own ? in_at(begin(what_.count, rank_)) : room + done * stride();
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
