// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/backend/cuda/detail/device_mover.hpp>
#include <heddle/backend/cuda/detail/device_rank.hpp>
#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/backend/cuda/shared_device_handle.hpp>
#include <heddle/comm/communicator.hpp>
#include <heddle/comm/detail/communicator_calls.hpp>
#include <heddle/comm/detail/thread_rank.hpp>
#include <memory>
#include <utility>

namespace heddle::cuda {

/// One rank's side of a process group whose ranks are threads that share one device. Made by `run_shared_device`,
/// `split` and `subset`; it must not outlive the rank's function. A model of `Communicator` for buffers in device
/// memory, with the promises of `comm::thread_communicator`, whose results it has bit for bit; and these:
///
/// - a call reads and writes after what the calling rank gave to its compute stream before, and before what it gives to
///   it later; of an asynchronous one, after `wait()`. The host waits for the other ranks' calls, not for the device;
/// - the work of a call is that of kernels on the communication stream of the group's first rank: an all-reduce one, in
///   which each element is read once and written once for each rank; a reduce-scatter one for each rank; what copies,
///   one for each 64 blocks. A transfer is a copy on the sender's;
/// - pointers are to memory of the shared device. What lies between a call and its end, on the device, cannot be taken
///   back: after a failure elsewhere the kernels under way still run.
///
/// Streams of several ranks meet in a call, so that it cannot be captured into a graph of one of them.
class shared_device_communicator
    : public comm::detail::communicator_calls<shared_device_communicator, shared_device_handle,
                                              comm::detail::thread_rank> {
 public:
  using memory = device_memory;

  shared_device_communicator(shared_device_communicator&&) noexcept = default;
  shared_device_communicator& operator=(shared_device_communicator&&) noexcept = default;

 private:
  using calls =
      comm::detail::communicator_calls<shared_device_communicator, shared_device_handle, comm::detail::thread_rank>;
  friend calls;
  friend class shared_device_run;
  shared_device_communicator(comm::detail::thread_rank rank, std::shared_ptr<detail::device_rank> on_device)
      : calls(std::move(rank)), on_device_(std::move(on_device)) {}
  [[nodiscard]] shared_device_communicator of(comm::detail::thread_rank made) const {
    return {std::move(made), on_device_};
  }

  template <class T>
  static void reduces(comm::detail::collective_call& call) {
    call.join = detail::device_join_of<T>(call.how);
  }

  /// `work(call)`, given to `rank_`, between this rank's work before and after.
  template <class Work>
  void in_order(Work work) {
    struct borrowed {
      detail::device_rank& from;
      detail::device_call& one = from.begin();
      ~borrowed() { from.give(one); }
    } const call{*on_device_};
    work(call.one);
    on_device_->follow(call.one);
  }
  void run(comm::detail::collective_call call) {
    in_order([&](detail::device_call& one) {
      call.on_mover = &one;
      rank_.run(call);
    });
  }
  void run(comm::detail::transfer& transfer) {
    in_order([&](detail::device_call& one) {
      transfer.on_mover = &one;
      rank_.run(transfer);
    });
  }
  /// `begin(call)` makes the handle of the threads' meeting.
  template <class Begin>
  [[nodiscard]] handle begun(Begin begin) {
    detail::device_call& one = on_device_->begin();
    try {
      return {begin(one), on_device_, one};
    } catch (...) {
      on_device_->give(one);
      throw;
    }
  }
  [[nodiscard]] handle start(comm::detail::collective_call call) {
    return begun([&](detail::device_call& one) {
      call.on_mover = &one;
      return rank_.start(call);
    });
  }
  template <class T>
  [[nodiscard]] handle start_transfer(comm::operation op, std::size_t peer, void const* from, void* to,
                                      std::size_t count) {
    return begun(
        [&](detail::device_call& one) { return rank_.template start_transfer<T>(op, peer, from, to, count, &one); });
  }

  std::shared_ptr<detail::device_rank> on_device_;
};

}  // namespace heddle::cuda
