// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include <heddle/comm/communicator.hpp>
#include <heddle/comm/detail/communicator_calls.hpp>
#include <heddle/comm/detail/thread_rank.hpp>

namespace heddle::comm {

/// One rank's side of a process group whose ranks are threads. Made by `run_threads`, `split` and `subset`; it must not
/// outlive the rank's function. A model of `Communicator`, with these promises of its own:
///
/// - nothing is buffered or allocated by a call (after the first asynchronous ones): data is copied once, from the
///   buffer of one rank to that of another;
/// - reductions join ranks 0, 1, 2, … in that order, and every rank gets the same bits;
/// - every disagreement between ranks ends the run with an error on all of them;
/// - one thread at a time calls the collectives of one communicator; different communicators of one rank may be used
///   from different threads.
///
/// Errors: `communication_error` and its kinds, see comm/errors.hpp. After the first one every call of the run throws.
class thread_communicator : public detail::communicator_calls<thread_communicator, thread_handle, detail::thread_rank> {
 public:
  using handle = thread_handle;
  static constexpr bool gathers_rows = true;
  static constexpr bool reduces_pieces = true;

  thread_communicator(thread_communicator&&) noexcept = default;
  thread_communicator& operator=(thread_communicator&&) noexcept = default;

  using detail::communicator_calls<thread_communicator, thread_handle, detail::thread_rank>::all_reduce;
  using detail::communicator_calls<thread_communicator, thread_handle, detail::thread_rank>::all_reduce_async;
  using detail::communicator_calls<thread_communicator, thread_handle, detail::thread_rank>::reduce_scatter_async;
  /// As of one piece (comm/pieces.hpp).
  template <class T>
  void all_reduce(pieces<T> data, reduction how = reduction::sum) {
    rank_.begin(operation::all_reduce);
    run(reducing<T>(rank_.template all_reduce_call<T>(data, how)));
  }
  template <class T>
  [[nodiscard]] handle all_reduce_async(pieces<T> data, reduction how = reduction::sum) {
    rank_.begin(operation::all_reduce);
    return start(reducing<T>(rank_.template all_reduce_call<T>(data, how)));
  }
  template <class T>
  [[nodiscard]] handle reduce_scatter_async(std::span<std::type_identity_t<T> const> in, pieces<T> out,
                                            reduction how = reduction::sum) {
    rank_.begin(operation::reduce_scatter);
    return start(reducing<T>(rank_.template reduce_scatter_call<T>(in, out, how)));
  }

 private:
  using calls = detail::communicator_calls<thread_communicator, thread_handle, detail::thread_rank>;
  friend calls;
  friend class thread_run;
  thread_communicator(std::shared_ptr<detail::thread_group> group, std::size_t member)
      : thread_communicator(detail::thread_rank(std::move(group), member)) {}
  explicit thread_communicator(detail::thread_rank rank) : calls(std::move(rank)) {}
  [[nodiscard]] static thread_communicator of(detail::thread_rank made) { return thread_communicator(std::move(made)); }

  template <class T>
  static void reduces(detail::collective_call& call) {
    call.reduce = detail::reduce_function_for<T>(call.how);
  }
  void run(detail::collective_call const& call) { rank_.run(call); }
  void run(detail::transfer& one) { rank_.run(one); }
  [[nodiscard]] handle start(detail::collective_call const& call) { return rank_.start(call); }
  template <class T>
  [[nodiscard]] handle start_transfer(operation op, std::size_t peer, void const* from, void* to, std::size_t count) {
    return rank_.start_transfer<T>(op, peer, from, to, count);
  }
};

}  // namespace heddle::comm
