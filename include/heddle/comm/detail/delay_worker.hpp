// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace heddle::comm::detail {

/// A well mixed number for each (seed, rank, number of the call): Steele, Lea, Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014, with the constants of SplitMix64.
[[nodiscard]] constexpr std::uint64_t mixed(std::uint64_t seed, std::uint64_t rank, std::uint64_t number) {
  std::uint64_t x = seed + 0x9e3779b97f4a7c15u * (rank * 0x100000001b3u + number + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Starts operations later, in the order of their calls, on a thread of its own. `Handle` is what starting gives.
template <class Handle>
class delay_worker {
 public:
  enum class job_state : std::uint8_t { waiting, started, failed, cancelled };
  struct job {
    std::function<Handle()> start{};
    std::chrono::steady_clock::time_point due{};
    void const* group = nullptr;
    job_state state = job_state::waiting;
    std::optional<Handle> handle{};
    std::exception_ptr failure{};
  };

  delay_worker() = default;
  delay_worker(delay_worker const&) = delete;
  delay_worker& operator=(delay_worker const&) = delete;
  ~delay_worker() {
    {
      std::lock_guard lock(mutex);
      stopping_ = true;
    }
    changed.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  std::mutex mutex;  // guards the jobs too
  std::condition_variable changed;

  void submit(std::shared_ptr<job> one) {
    {
      std::lock_guard lock(mutex);
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
      queue_.push_back(std::move(one));
    }
    changed.notify_all();
  }

  /// Returns when every job of `group` has been started.
  void drain(void const* group) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      for (auto const& one : queue_)
        if (one->group == group && one->state == job_state::waiting) return false;
      return true;
    });
  }

 private:
  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      std::shared_ptr<job> const one = queue_.front();
      while (!stopping_ && one->state == job_state::waiting && std::chrono::steady_clock::now() < one->due)
        changed.wait_until(lock, one->due);
      if (stopping_) return;
      if (one->state == job_state::waiting) {
        std::exception_ptr failure;
        try {
          one->handle = one->start();  // posts, and returns at once
        } catch (...) {
          failure = std::current_exception();
        }
        one->state = failure == nullptr ? job_state::started : job_state::failed;
        one->failure = std::move(failure);
      }
      queue_.pop_front();
      changed.notify_all();
    }
  }

  std::deque<std::shared_ptr<job>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

/// The handle of an operation that a `delay_worker` starts.
template <class Handle>
class delayed_handle {
 public:
  using worker = delay_worker<Handle>;
  using job_state = typename worker::job_state;

  delayed_handle() = default;
  delayed_handle(std::shared_ptr<worker> owner, std::shared_ptr<typename worker::job> one)
      : worker_(std::move(owner)), job_(std::move(one)) {}
  delayed_handle(delayed_handle&& other) noexcept
      : worker_(std::move(other.worker_)), job_(std::exchange(other.job_, nullptr)) {}
  delayed_handle& operator=(delayed_handle&& other) noexcept {
    if (this == &other) return *this;
    close();
    worker_ = std::move(other.worker_);
    job_ = std::exchange(other.job_, nullptr);
    return *this;
  }
  ~delayed_handle() { close(); }

  void wait() {
    if (job_ == nullptr) return;
    auto const one = std::exchange(job_, nullptr);
    {
      std::unique_lock lock(worker_->mutex);
      worker_->changed.wait(lock, [&] { return one->state != job_state::waiting; });
    }
    if (one->failure != nullptr) std::rethrow_exception(std::exchange(one->failure, nullptr));
    one->handle->wait();
  }

  [[nodiscard]] bool done() const {
    if (job_ == nullptr) return true;
    std::lock_guard lock(worker_->mutex);
    return job_->state == job_state::failed || (job_->state == job_state::started && job_->handle->done());
  }

 private:
  void close() noexcept {
    if (job_ == nullptr) return;
    if (std::uncaught_exceptions() == 0) {
      try {
        wait();
      } catch (...) {  // as the inner handle: the next call says what happened
      }
      return;
    }
    auto const one = std::exchange(job_, nullptr);
    std::optional<Handle> started;  // ends here, on the thread that unwinds
    std::lock_guard lock(worker_->mutex);
    if (one->state == job_state::waiting) one->state = job_state::cancelled;
    started.swap(one->handle);
  }

  std::shared_ptr<worker> worker_;
  std::shared_ptr<typename worker::job> job_;
};

}  // namespace heddle::comm::detail
