// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <heddle/backend/cuda/detail/nccl_issue.hpp>
#include <heddle/backend/cuda/detail/nccl_link.hpp>
#include <heddle/backend/cuda/detail/nccl_pools.hpp>
#include <heddle/backend/cuda/execution.hpp>
#include <heddle/backend/cuda/memory.hpp>
#include <heddle/backend/cuda/nccl_options.hpp>
#include <heddle/comm/rank_exchange.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace heddle::cuda::detail {

/// What a rank has of NCCL: its links, the calls that are under way, and a thread that watches over them. That thread
/// gives NCCL what could not be given at once, keeps the time limit, asks NCCL for errors, hears of other ranks'
/// failures, and aborts all links when the run has failed: whoever waits for the device then comes free.
class nccl_context {
 public:
  nccl_context(std::shared_ptr<comm::rank_exchange> exchange, cuda::execution& execution, nccl_options const& options)
      : exchange_(std::move(exchange)), execution_(execution), options_(options), rooms_(exchange_->place().size) {
    if (options.timeout.count() <= 0)
      throw error("nccl_options: timeout is " + std::to_string(options.timeout.count()) + " ms; it must be positive");
    watcher_ = std::thread([this] { watch(); });
  }
  nccl_context(nccl_context const&) = delete;
  nccl_context& operator=(nccl_context const&) = delete;
  ~nccl_context() { close(); }

  [[nodiscard]] comm::rank_exchange& exchange() { return *exchange_; }
  [[nodiscard]] nccl_options const& options() const { return options_; }
  [[nodiscard]] meeting_rooms& rooms() { return rooms_; }
  [[nodiscard]] std::size_t rank() const { return exchange_->place().rank; }

  /// Ends the run for all.
  [[noreturn]] void fail_and_throw(comm::detail::failure_kind kind, std::string const& text) {
    exchange_->fail({kind, rank(), text, nullptr});
    exchange_->throw_failure();
  }
  /// The rank left an operation behind: the next call says so. What has not ended is aborted, since whatever the
  /// exception destroys may wait for the device.
  void abandon(std::string const& text) {
    std::unique_lock lock(mutex_);
    if (closed_) return;
    if (abandoned_.empty()) abandoned_ = text;
    abort(lock);
  }
  /// Refuses calls of a rank whose run has failed or is over.
  void require_running(char const* call, std::string const& group) {
    exchange_->require_running();
    std::lock_guard const lock(mutex_);
    if (closed_)
      throw comm::communication_error(std::string(call) + " on " + comm::detail::in_quotes(group) +
                                      " is called after its run; a communicator must not outlive the rank's function");
    require_kept();
  }

  /// The link of that key, or a new one of these ranks of the run.
  [[nodiscard]] nccl_link& link(std::string const& key, std::vector<std::size_t> const& members, std::size_t member) {
    std::lock_guard const lock(mutex_);
    auto& one = links_[key];
    if (one == nullptr) one = std::make_unique<nccl_link>(*exchange_, key, members, member);
    return *one;
  }
  /// One that NCCL made by a split.
  [[nodiscard]] nccl_link& link(std::string const& key, ncclComm_t made) {
    std::lock_guard const lock(mutex_);
    return *(links_[key] = std::make_unique<nccl_link>(*exchange_, key, made));
  }
  /// Returns when NCCL has connected the ranks of the link.
  void connect(nccl_link& link) {
    std::unique_lock lock(mutex_);
    auto const late = std::chrono::steady_clock::now() + exchange_->limit();
    wait(lock, [&] {
      guarded([&] { advance(link); }, "the start of communicator '" + link.key() + "'");
      if (!link.ready() && std::chrono::steady_clock::now() >= late)
        exchange_->fail(
            {comm::detail::failure_kind::timeout, rank(),
             "rank " + std::to_string(rank()) + ": communicator '" + link.key() + "' has not started after " +
                 std::to_string(exchange_->limit().count()) +
                 " ms; a rank has not come to it: make the same calls on every rank, or give a longer limit",
             nullptr});
      return link.ready();
    });
  }

  /// A call of this rank, after the work that the calling thread has given to its compute stream. The caller holds it.
  [[nodiscard]] nccl_call& begin() {
    stream const& compute = compute_here();
    nccl_call& one = [this]() -> nccl_call& {
      std::lock_guard const lock(mutex_);
      return calls_.take();
    }();
    try {
      cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
      check(cudaStreamIsCapturing(compute.get(), &capture), "cudaStreamIsCapturing");
      one.captured = capture != cudaStreamCaptureStatusNone;
      compute.record(one.called);
    } catch (...) {
      give(one);
      throw;
    }
    return one;
  }
  /// Room on the device for a group's collectives, before any: a step allocates nothing. Without the mutex: to allocate
  /// can wait for the device.
  void furnish(nccl_link& link, std::size_t ranks) {
    if (options_.room < least_room * ranks)
      throw error("nccl_options: room is " + std::to_string(options_.room) + " bytes; it must be at least " +
                  std::to_string(least_room) + " for each rank of a group, which are " +
                  std::to_string(least_room * ranks) + " here");
    link.furnish(ranks == 1 ? least_room : options_.room);  // of one rank's, barriers alone use it
  }
  /// Gives it to NCCL, now or when the calls before it have been.
  void submit(nccl_link& link, nccl_call& one) {
    std::lock_guard const lock(mutex_);
    exchange_->require_running();
    one.watched = true;
    one.since = std::chrono::steady_clock::now();
    link.waiting.push_back(&one);
    guarded([&] { advance(link); }, {});
    busy_.notify_one();
  }
  /// Further work of the calling thread comes after the call. The host waits until NCCL has it, and not for the device.
  void follow(nccl_call& one) {
    {
      std::unique_lock lock(mutex_);
      if (closed_) return;  // its run has ended, and with it the call
      wait(lock, [&] {
        if (!one.issued) advance_all();
        return one.issued;
      });
    }
    compute_here().wait(one.ended);
  }
  /// The host waits for its end.
  void finish(nccl_call& one) {
    follow(one);
    one.ended.synchronize();
    exchange_->require_running();
  }
  /// Whether `follow` would not wait, and the device is done.
  [[nodiscard]] bool done(nccl_call const& one) {
    std::lock_guard const lock(mutex_);
    return closed_ || exchange_->failed() || (one.issued && one.ended.done());
  }
  /// Nobody asks for it any more.
  void give(nccl_call& one) {
    std::lock_guard const lock(mutex_);
    if (closed_) return;
    calls_.give(one);
  }

  /// The orderly end of a run: all that was called is done, and NCCL has let go.
  void finish() {
    {
      std::lock_guard const lock(mutex_);
      require_kept();
    }
    execution_.compute().synchronize();  // of other threads, their calls say when they are done
    std::unique_lock lock(mutex_);
    wait(lock, [&] {
      advance_all();
      return std::all_of(links_.begin(), links_.end(), [](auto const& one) {
        return one.second->closed() || (one.second->waiting.empty() && one.second->running.empty());
      });
    });
    // In the order of their names, which is the same on all ranks.
    for (auto const& [key, one] : links_)
      if (one->ready()) guarded([&, link = one.get()] { link->finalize(); }, key);
    auto const late = std::chrono::steady_clock::now() + options_.timeout;
    for (auto const& [key, one] : links_)
      wait(lock, [&, link = one.get()] {
        bool settled = true;
        if (!link->closed() && !link->settled())
          guarded([&] { settled = link->settle("ncclCommFinalize"); }, link->key());
        if (!settled && std::chrono::steady_clock::now() >= late)
          fail_and_throw(comm::detail::failure_kind::timeout,
                         "rank " + std::to_string(rank()) + ": communicator '" + link->key() +
                             "' has not ended after " + std::to_string(options_.timeout.count()) +
                             " ms; another rank has not returned from its function: let all return, or give a longer "
                             "timeout");
        return settled;
      });
    for (auto const& [key, one] : links_)
      if (one->ready()) guarded([&, link = one.get()] { link->destroy(); }, key);
  }
  /// Ends what is left, without the other ranks.
  void close() {
    {
      std::lock_guard const lock(mutex_);
      if (closed_) return;
      closed_ = true;
    }
    busy_.notify_one();
    watcher_.join();
    std::unique_lock lock(mutex_);
    abort(lock);
    links_.clear();
    calls_.clear();
    rooms_.clear();
  }

 private:
  /// What goes wrong ends the run; `what` names it where no call is in progress.
  template <class Body>
  void guarded(Body const& body, std::string const& what) {
    try {
      body();
    } catch (comm::communication_error const&) {
      throw;
    } catch (heddle::error const& one) {
      std::string text = "rank " + std::to_string(rank()) + " failed: ";
      for (auto const& [key, link] : links_)
        if (link->first_is_in_progress && what.empty()) text += text_of(*link->waiting.front()) + ": ";
      exchange_->fail(
          {comm::detail::failure_kind::rank, rank(), text + (what.empty() ? "" : what + ": ") + one.what(), nullptr});
      exchange_->throw_failure();
    }
  }

  void require_kept() {
    if (abandoned_.empty()) return;
    exchange_->fail({comm::detail::failure_kind::rank, rank(), abandoned_, nullptr});
    exchange_->throw_failure();
  }

  /// Until `ready()`, or the run has failed, which it throws.
  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready const& ready) {
    for (;;) {
      exchange_->require_running();
      if (ready()) return;
      changed_.wait_for(lock, std::chrono::microseconds(200));
    }
  }

  /// Gives NCCL as many of the link's calls as it takes now.
  void advance(nccl_link& link) {
    while (!link.ready())
      if (link.closed() || !link.advance()) return;
    while (!link.waiting.empty()) {
      nccl_call& one = *link.waiting.front();
      // With other work of the communicator under way a split can wait for ever.
      if (one.what.op == comm::operation::split && !link.running.empty()) {
        one.since = std::chrono::steady_clock::now();
        return;
      }
      nccl_issue issue(link, one, options_);
      if (!link.first_is_in_progress) {
        link.on().wait(one.called);
        link.first_is_in_progress = true;
        one.has_more = issue(0);
        one.steps = 1;
      } else if (!link.settled() && !link.settle(comm::name_of(one.what.op))) {
        return;
      } else if (one.has_more) {
        one.has_more = issue(one.steps++);
      }
      if (!link.settled()) return;
      if (one.has_more) continue;
      link.on().record(one.ended);
      link.first_is_in_progress = false;
      pop(link.waiting);
      one.issued = true;
      one.since = std::chrono::steady_clock::now();
      if (one.captured)
        calls_.forget(one);
      else
        link.running.push_back(&one);
      changed_.notify_all();
    }
  }
  void advance_all() {
    guarded(
        [&] {
          for (auto const& [key, one] : links_)
            if (!one->unused()) advance(*one);
        },
        {});
  }

  // ---- the watching thread

  void watch() {
    std::unique_lock lock(mutex_);
    try {
      select_device(execution_.device());
      while (!closed_) busy_.wait_for(lock, std::chrono::milliseconds(look() ? 1 : 20));
    } catch (heddle::error const& one) {
      exchange_->fail({comm::detail::failure_kind::rank, rank(),
                       "rank " + std::to_string(rank()) + " failed: " + one.what(), nullptr});
      abort(lock);
    }
  }
  /// Whether anything is under way.
  bool look() {
    exchange_->require_running();
    advance_all();
    bool busy = false;
    for (auto const& [key, link] : links_) {
      while (!link->running.empty() && link->running.front()->ended.done()) {
        nccl_call& one = *link->running.front();
        pop(link->running);
        calls_.forget(one);
        changed_.notify_all();
      }
      if (link->ready() && link->settled()) guarded([&, one = link.get()] { ask(*one); }, {});
      if (!link->running.empty()) keep_limit(*link->running.front(), "has not ended");
      if (!link->waiting.empty()) keep_limit(*link->waiting.front(), "has not met the other ranks");
      busy = busy || !link->running.empty() || !link->waiting.empty();
    }
    return busy;
  }
  /// NCCL's own errors, of work that is on the device.
  void ask(nccl_link& link) {
    ncclResult_t status = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(link.get(), &status), "ncclCommGetAsyncError", link.get());
    if (status == ncclSuccess || status == ncclInProgress) return;
    std::string const what =
        link.running.empty() ? "communicator '" + link.key() + "'" : text_of(*link.running.front());
    throw nccl_error(status, nccl_text_of(status, what, link.get(), source_place::here()));
  }
  /// The time counts from when the device could have begun.
  void keep_limit(nccl_call& one, char const* what) {
    auto const now = std::chrono::steady_clock::now();
    if (one.issued && !one.called.done()) one.since = now;
    if (now - one.since < options_.timeout) return;
    fail_and_throw(comm::detail::failure_kind::timeout,
                   "rank " + std::to_string(rank()) + ": " + text_of(one) + ' ' + what + " after " +
                       std::to_string(options_.timeout.count()) +
                       " ms; another rank has not made this call, or is still busy: make the same calls on every rank, "
                       "or give a longer timeout");
  }

  /// The time of an operation begins when those before it are over.
  static void pop(std::deque<nccl_call*>& list) {
    list.pop_front();
    if (!list.empty()) list.front()->since = std::chrono::steady_clock::now();
  }

  /// Ends all links together: to end one, NCCL may wait for the device, where the kernel of another waits for its
  /// peers. That is without the mutex, for those who would hear of it.
  void abort(std::unique_lock<std::mutex>& lock) noexcept {
    (void)ncclGroupStart();
    for (auto const& [key, link] : links_) link->abort();
    lock.unlock();
    (void)ncclGroupEnd();
    lock.lock();
    for (auto const& [key, link] : links_) {
      for (auto* const list : {&link->waiting, &link->running}) {
        for (nccl_call* const one : *list) calls_.forget(*one);
        list->clear();
      }
    }
    changed_.notify_all();
  }

  // ---- calls

  /// Each thread of a rank computes with an execution of its own: a stream that two would share would let one wait for
  /// what the other has yet to call.
  [[nodiscard]] stream const& compute_here() const {
    cuda::execution const& here = cuda::execution::current();
    if (here.device() != execution_.device())
      throw error("nccl_communicator: the calling thread computes on device " + std::to_string(here.device()) +
                  ", and its rank on device " + std::to_string(execution_.device()) +
                  "; give the thread an execution of that device");
    return here.compute();
  }

  static constexpr std::size_t least_room = 16;

  std::shared_ptr<comm::rank_exchange> exchange_;
  cuda::execution& execution_;
  nccl_options options_;
  std::mutex mutex_;
  std::condition_variable changed_, busy_;
  std::map<std::string, std::unique_ptr<nccl_link>> links_;
  nccl_call_pool calls_;
  meeting_rooms rooms_;
  std::string abandoned_;
  bool closed_ = false;
  std::thread watcher_;
};

}  // namespace heddle::cuda::detail
