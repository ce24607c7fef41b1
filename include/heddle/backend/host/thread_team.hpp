// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/workspace.hpp>
#include <heddle/detail/joined_text.hpp>
#include <heddle/error.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace heddle::host {

namespace detail {

/// Tells the core that this thread is waiting.
inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace detail

/// The threads that a rank computes with: the one that makes the team, and `size - 1` helpers. While the team lives,
/// the primitives that its maker calls deal their work to all of them. What each part computes, and the order in which
/// parts are summed, depend on the shapes alone: results are the same bits for any number of threads, and without a
/// team.
///
/// Parts are claimed one by one, so a thread that the machine keeps from running holds up the part it has, and no more.
/// A helper without work spins for two milliseconds, if `spins`, and then sleeps; pass false where there are more
/// threads than cores. An exception in a part is thrown to the maker once all parts have ended.
class thread_team {
 public:
  explicit thread_team(std::size_t size, bool spins = true) : spins_(spins), memory_(checked(size)) {
    try {
      for (std::size_t member = 1; member < size; ++member) helpers_.emplace_back([this, member] { help(member); });
    } catch (std::exception const& e) {
      std::size_t const started = helpers_.size() + 1;
      end();
      throw error(heddle::detail::joined_text({"thread_team: ", size, " threads were asked for and ", started,
                                               " could be started: ", e.what(), "; ask for fewer"}));
    }
    previous_ = std::exchange(active(), size > 1 ? this : nullptr);
  }
  thread_team(thread_team const&) = delete;
  thread_team& operator=(thread_team const&) = delete;
  ~thread_team() {
    active() = previous_;
    end();
  }

  [[nodiscard]] std::size_t size() const { return helpers_.size() + 1; }

  /// The team that primitives called on this thread deal to; null: this thread works alone.
  static thread_team* of_this_thread() { return active(); }

  /// f(part, member) for each part of 0..parts-1 (fewer than 65536), then returns. `member` < size() is who works.
  template <class F>
  void run(std::size_t parts, F const& f) {
    job_ = [](void const* what, std::size_t part, std::size_t member) { (*static_cast<F const*>(what))(part, member); };
    context_ = &f;
    done_.store(0, std::memory_order_relaxed);
    // From here on helpers may claim parts. What a part calls on this thread is not dealt again.
    state_.store(std::uint64_t{++generation_} << 32 | parts << 16, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      { std::lock_guard<std::mutex> const lock(mutex_); }
      wake_.notify_all();
    }
    active() = nullptr;
    work(0);
    wait_for(parts);
    active() = this;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  /// Makes `bytes` bytes ready for each member; the maker's own are `mine`, unless that is null.
  void reserve(std::size_t bytes, std::byte* mine) {
    mine_ = mine != nullptr || bytes == 0 ? mine : memory_[0].get(bytes);
    for (std::size_t member = 1; member < memory_.size() && bytes > 0; ++member) (void)memory_[member].get(bytes);
  }
  [[nodiscard]] std::byte* memory_of(std::size_t member) { return member == 0 ? mine_ : memory_[member].get(0); }

 private:
  static std::size_t checked(std::size_t size) {
    constexpr std::size_t most = 65535;
    if (size == 0) throw error("thread_team: 'size' is 0; a rank computes with at least 1 thread, its own");
    if (size > most)
      throw error(heddle::detail::joined_text({"thread_team: 'size' is ", size, "; it may be at most ", most,
                                               ", and more threads than cores gain nothing"}));
    return size;
  }
  /// Waits for `ready()` without sleeping, if this team spins; returns whether it is. For some tens of microseconds it
  /// keeps its core, for two milliseconds it leaves it to whom wants it: longer than what a step does between two
  /// primitives. A thread that sleeps is woken on the core of the one that wakes it, if the others have anything else
  /// to do, and is then no help.
  template <class Ready>
  bool spin_until(Ready const& ready) const {
    if (!spins_) return ready();
    for (int i = 0; i < 2000; ++i) {
      if (ready()) return true;
      detail::relax();
    }
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    do {
      if (ready()) return true;
      std::this_thread::yield();
    } while (std::chrono::steady_clock::now() < end);
    return ready();
  }

  static thread_team*& active() {
    static thread_local thread_team* team = nullptr;
    return team;
  }
  static std::size_t next_of(std::uint64_t state) { return state & 0xffff; }
  static std::size_t parts_of(std::uint64_t state) { return state >> 16 & 0xffff; }
  static bool has_work(std::uint64_t state) { return next_of(state) < parts_of(state); }

  /// Claims parts as long as there are any. A claim succeeds only on the state that was read, which holds the number of
  /// the run: so what is read after it belongs to that run, which cannot end before the part has.
  void work(std::size_t member) {
    std::uint64_t state = state_.load(std::memory_order_acquire);
    while (has_work(state)) {
      if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      try {
        job_(context_, next_of(state), member);
      } catch (...) {
        std::lock_guard<std::mutex> const lock(mutex_);
        if (!failure_) failure_ = std::current_exception();
      }
      if (done_.fetch_add(1, std::memory_order_seq_cst) + 1 == parts_of(state) &&
          maker_sleeps_.load(std::memory_order_seq_cst)) {
        { std::lock_guard<std::mutex> const lock(mutex_); }
        finished_.notify_one();
      }
      state = state_.load(std::memory_order_acquire);
    }
  }

  void wait_for(std::size_t parts) {
    if (spin_until([&] { return done_.load(std::memory_order_acquire) == parts; })) return;
    std::unique_lock<std::mutex> lock(mutex_);
    maker_sleeps_.store(true, std::memory_order_seq_cst);
    finished_.wait(lock, [&] { return done_.load(std::memory_order_seq_cst) == parts; });
    maker_sleeps_.store(false, std::memory_order_relaxed);
  }

  void help(std::size_t member) {
    for (;;) {
      work(member);
      if (spin_until([&] { return has_work(state_.load(std::memory_order_relaxed)); })) continue;
      std::unique_lock<std::mutex> lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return ends_ || has_work(state_.load(std::memory_order_seq_cst)); });
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
      if (ends_) return;
    }
  }
  void end() {
    {
      std::lock_guard<std::mutex> const lock(mutex_);
      ends_ = true;
    }
    wake_.notify_all();
    for (std::thread& one : helpers_) one.join();
  }

  // The run in progress: its number, its parts, and the next part to claim, 32, 16 and 16 bits.
  alignas(64) std::atomic<std::uint64_t> state_{0};
  alignas(64) std::atomic<std::size_t> done_{0};
  alignas(64) void (*job_)(void const*, std::size_t, std::size_t) = nullptr;
  void const* context_ = nullptr;
  std::uint32_t generation_ = 0;
  std::byte* mine_ = nullptr;
  std::exception_ptr failure_;

  bool spins_;
  bool ends_ = false;
  std::atomic<std::size_t> sleepers_{0};
  std::atomic<bool> maker_sleeps_{false};
  std::mutex mutex_;
  std::condition_variable wake_, finished_;
  std::vector<detail::workspace> memory_;
  thread_team* previous_ = nullptr;
  std::vector<std::thread> helpers_;
};

}  // namespace heddle::host
