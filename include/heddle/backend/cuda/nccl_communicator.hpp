// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/cuda/detail/nccl_group.hpp>
#include <heddle/backend/cuda/device_memory.hpp>
#include <heddle/backend/cuda/nccl_handle.hpp>
#include <heddle/comm/communicator.hpp>
#include <heddle/comm/detail/communicator_calls.hpp>
#include <memory>
#include <string_view>
#include <utility>

namespace heddle::cuda {

/// One rank's side of a process group whose ranks have a device each and meet over NCCL. Made by `run_nccl_threads`,
/// `run_nccl_process`, `split` and `subset`; it must not outlive the rank's function. A model of `Communicator` for
/// buffers in the memory of the rank's device, with these promises of its own:
///
/// - a call reads and writes after what the rank gave to its compute stream before, and before what it gives to it
///   later; of an asynchronous one, after `wait()`. The host waits for the ranks to connect at the first call of a
///   group, or of a pair that exchanges, and for `split` and `barrier`; else for nothing;
/// - each group is one of NCCL's communicators with a stream of its own, and so is each ordered pair of ranks that
///   exchanges: transfers of different pairs do not wait for each other, nor for the group's collectives;
/// - sums of float32 and float64, and reductions of integers that NCCL has, are NCCL's, in the order that it chooses
/// for
///   these devices, the same bits on every rank; all others join ranks 0, 1, 2, … in that order, rounded once: maxima
///   and minima of floats, of which NCCL would drop a NaN, 16-bit integers, and sums of 16-bit floats (see
///   `nccl_options`);
/// - all-gathers in parts are one group of NCCL's; chunks of sizes that the ranks do not divide are broadcast, or
///   reduced, each from or to its rank: nothing is padded;
/// - arguments are checked; whether ranks make calls that belong together is not, but by the time limit, whose error
///   names the call that had no end.
///
/// Errors: `communication_error` and its kinds, see comm/errors.hpp. After the first one every call of the run throws,
/// on every rank, and NCCL's communicators are aborted.
class nccl_communicator : public comm::detail::communicator_calls<nccl_communicator, nccl_handle, detail::nccl_rank> {
 public:
  using memory = device_memory;

  nccl_communicator(nccl_communicator&&) noexcept = default;
  nccl_communicator& operator=(nccl_communicator&&) noexcept = default;

 private:
  using calls = comm::detail::communicator_calls<nccl_communicator, nccl_handle, detail::nccl_rank>;
  friend calls;
  friend class nccl_run;
  explicit nccl_communicator(std::shared_ptr<detail::nccl_group> group) : calls(detail::nccl_rank(std::move(group))) {}
  [[nodiscard]] static nccl_communicator of(std::shared_ptr<detail::nccl_group> group) {
    return nccl_communicator(std::move(group));
  }

  template <class T>
  static void reduces(comm::detail::collective_call& call) {
    call.join = detail::device_join_of<T>(call.how);
  }

  /// Gives the call back, whatever happens.
  struct held {
    detail::nccl_context& context;
    detail::nccl_call& call;
    ~held() { context.give(call); }
  };
  void run(comm::detail::collective_call const& call) {
    held const one{*rank_.context(), rank_.start(call)};
    call.op == comm::operation::barrier ? one.context.finish(one.call) : one.context.follow(one.call);
  }
  void run(comm::detail::transfer const& transfer) {
    held const one{*rank_.context(), rank_.start(transfer)};
    one.context.follow(one.call);
  }
  [[nodiscard]] handle start(comm::detail::collective_call const& call) { return {rank_.context(), rank_.start(call)}; }
  template <class T>
  [[nodiscard]] handle start_transfer(comm::operation op, std::size_t peer, void const* from, void* to,
                                      std::size_t count) {
    comm::detail::transfer one;
    rank_.template prepare<T>(one, op, peer, from, to, count);
    return {rank_.context(), rank_.start(one)};
  }
};

}  // namespace heddle::cuda
