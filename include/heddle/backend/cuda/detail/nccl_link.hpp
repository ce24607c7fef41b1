// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <heddle/backend/cuda/event.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/nccl_status.hpp>
#include <heddle/backend/cuda/stream.hpp>
#include <heddle/comm/detail/thread_call.hpp>
#include <heddle/comm/rank_exchange.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace heddle::cuda::detail {

/// One call of a rank over NCCL, from the call on until the device has done it and nobody asks for it any more. Pooled.
struct nccl_call {
  event called, ended;                 ///< the end of the rank's work before it; its own end
  comm::detail::collective_call what;  ///< of a transfer: `op`, type and `count`, `in` or `out`, and the peer as `root`
  std::uint64_t number = 0;            ///< of its group
  std::string group, label;            ///< the group's name and, of a split, the new one's: the call may outlive both
  ncclComm_t made = nullptr;           ///< of a split
  unsigned steps = 0;                  ///< that NCCL was given
  bool has_more = false;               ///< steps to come
  bool issued = false;                 ///< NCCL has it, and `ended` is recorded
  bool watched = false;                ///< in a link's lists
  bool held = false;                   ///< by a handle, or a caller
  bool captured = false;               ///< in a graph, whose events nobody may ask for
  std::chrono::steady_clock::time_point since{};  ///< it could have run
};

/// "all_reduce of 4 float32 (sum) on "dp" (call 3)"
[[nodiscard]] inline std::string text_of(nccl_call const& one) {
  using comm::operation;
  comm::detail::collective_call const& what = one.what;
  std::string text;
  if (what.op == operation::send || what.op == operation::receive)
    text = std::string(comm::name_of(what.op)) + " of " + comm::detail::amount(what.count, what.kind) +
           (what.op == operation::send ? " to rank " : " from rank ") + std::to_string(what.root);
  else
    text = comm::detail::describe(what);
  return text + " on " + comm::detail::in_quotes(one.group) + " (call " + std::to_string(one.number) + ')';
}

/// One of NCCL's communicators as a rank has it, with its stream: operations run in the order in which they were
/// called, each when the one before has been given to NCCL. It is not blocking: nothing here waits.
/// All members are called under the mutex of the rank.
class nccl_link {
 public:
  /// Of ranks of the run, in order; the first gives NCCL's id to the others, under `key`.
  nccl_link(comm::rank_exchange& exchange, std::string key, std::vector<std::size_t> members, std::size_t member)
      : exchange_(exchange), key_(std::move(key)), members_(std::move(members)), member_(member) {}
  /// One that NCCL has made.
  nccl_link(comm::rank_exchange& exchange, std::string key, ncclComm_t made)
      : exchange_(exchange), key_(std::move(key)), state_(state::joining), communicator_(made) {}
  nccl_link(nccl_link const&) = delete;
  nccl_link& operator=(nccl_link const&) = delete;

  [[nodiscard]] std::string const& key() const { return key_; }
  [[nodiscard]] stream const& on() const { return stream_; }
  [[nodiscard]] ncclComm_t get() const { return communicator_; }
  [[nodiscard]] bool ready() const { return state_ == state::ready; }
  /// NCCL was not asked to connect the ranks.
  [[nodiscard]] bool unused() const { return state_ == state::asking && waiting.empty(); }
  [[nodiscard]] bool closed() const { return state_ == state::closed; }
  /// Of one that is ready.
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t rank() const { return member_; }
  /// NCCL has accepted all that it was given.
  [[nodiscard]] bool settled() const { return !in_progress_; }

  /// A step towards `ready`, or of what NCCL does on its own. Whether it came further.
  bool advance() {
    switch (state_) {
      case state::asking:
        return ask();
      case state::joining:
        if (!settle("the start of NCCL's communicator")) return false;
        require_made();
        state_ = state::ready;
        return true;
      default:
        return false;
    }
  }
  /// Whether NCCL is done with the last call, of that name.
  bool settle(char const* call, source_place place = source_place::here()) {
    ncclResult_t status = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(communicator_, &status), "ncclCommGetAsyncError", communicator_);
    in_progress_ = status == ncclInProgress;
    if (!in_progress_) check_nccl(status, call, communicator_, place);
    return !in_progress_;
  }
  /// What a call returned.
  void took(ncclResult_t status, char const* call, source_place place = source_place::here()) {
    in_progress_ = in_progress_ || status == ncclInProgress;
    if (status != ncclInProgress) check_nccl(status, call, communicator_, place);
  }

  /// Room on the device, which one call after another uses: how much there is, and where. Transfers need none.
  [[nodiscard]] std::size_t room() const { return room_.bytes(); }
  [[nodiscard]] unsigned char* room_at() const { return room_.data(); }
  void furnish(std::size_t bytes) { room_ = device_arena<unsigned char>(bytes); }

  /// Ends what runs, without the other ranks. In a group of NCCL's with all other links of the device, since NCCL may
  /// wait for the device.
  void abort() noexcept {
    if (communicator_ != nullptr) (void)ncclCommAbort(communicator_);
    communicator_ = nullptr;
    state_ = state::closed;
    in_progress_ = first_is_in_progress = false;
  }
  /// The orderly end, in two steps: `finalize`, `settle`; then `destroy`.
  void finalize() {
    if (communicator_ != nullptr) took(ncclCommFinalize(communicator_), "ncclCommFinalize");
  }
  void destroy() {
    ncclComm_t const one = std::exchange(communicator_, nullptr);
    state_ = state::closed;
    if (one != nullptr) check_nccl(ncclCommDestroy(one), "ncclCommDestroy");
  }

  std::deque<nccl_call*> waiting;  ///< not yet NCCL's; the first may be in progress
  std::deque<nccl_call*> running;  ///< NCCL's, in order
  bool first_is_in_progress = false;

 private:
  enum class state : std::uint8_t { asking, joining, ready, closed };

  /// Every communicator of heddle's.
  [[nodiscard]] static ncclConfig_t config() {
    ncclConfig_t one = NCCL_CONFIG_INITIALIZER;
    one.blocking = 0;
    return one;
  }

  void require_made() {
    int size = 0, rank = 0;
    check_nccl(ncclCommCount(communicator_, &size), "ncclCommCount", communicator_);
    check_nccl(ncclCommUserRank(communicator_, &rank), "ncclCommUserRank", communicator_);
    size_ = static_cast<std::size_t>(size);
    member_ = static_cast<std::size_t>(rank);
  }

  bool ask() {
    ncclUniqueId id{};
    auto const bytes = std::as_writable_bytes(std::span(&id, 1));
    if (member_ == 0) {
      check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
      for (std::size_t m = 1; m < members_.size(); ++m) exchange_.mail(members_[m], key_, bytes);
    } else {
      auto const got = exchange_.poll(members_[0], key_);
      if (!got) return false;
      if (got->size() != bytes.size())
        throw error("the id of NCCL's communicator " + key_ + " has " + std::to_string(got->size()) + " bytes, not " +
                    std::to_string(bytes.size()) + "; run one program on all ranks");
      std::copy(got->begin(), got->end(), bytes.begin());
    }
    ncclConfig_t how = config();
    took(ncclCommInitRankConfig(&communicator_, static_cast<int>(members_.size()), id, static_cast<int>(member_), &how),
         "ncclCommInitRankConfig");
    state_ = state::joining;
    return true;
  }

  comm::rank_exchange& exchange_;
  std::string key_;
  std::vector<std::size_t> members_;
  std::size_t member_ = 0, size_ = 0;
  state state_ = state::asking;
  ncclComm_t communicator_ = nullptr;
  bool in_progress_ = false;
  stream stream_;
  device_arena<unsigned char> room_;
};

}  // namespace heddle::cuda::detail
