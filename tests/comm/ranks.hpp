// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/comm/threads.hpp>
#include <heddle/tensor/host_memory.hpp>
#include <span>
#include <thread>
#include <utility>
#include <vector>

// Tests that are written once for several kinds of ranks take `Ranks`: its communicator and handle, and how they run.
namespace heddle::testing {

/// Elements where the buffers of `Ranks` lie.
template <class Ranks, class T>
class array {
 public:
  using memory = memory_of<typename Ranks::communicator>;

  explicit array(std::vector<T> const& values) : size_(values.size()), room_(values.size() + 1) { set(values); }
  explicit array(std::size_t size, T value = T{}) : array(std::vector<T>(size, value)) {}

  void set(std::vector<T> const& values) const { memory::from_host(values.data(), room_.data(), values.size()); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> out(size_);
    memory::to_host(static_cast<T const*>(room_.data()), out.data(), size_);
    return out;
  }
  [[nodiscard]] T first() const { return values().front(); }
  [[nodiscard]] std::span<T> span() const { return {room_.data(), size_}; }
  [[nodiscard]] std::span<T const> read() const { return span(); }

 private:
  std::size_t size_;
  typename memory::template arena<T> room_;  // an element more, so that an empty one has an address
};

struct thread_ranks {
  using communicator = comm::thread_communicator;
  using handle = comm::thread_handle;
  /// How often what is repeated is repeated.
  static constexpr int rounds = 200;

  template <class F>
  static void run(std::size_t ranks, F&& function, comm::thread_options options = {}) {
    comm::run_threads(ranks, std::forward<F>(function), options);
  }
  /// Another thread of a rank.
  template <class F>
  static std::thread thread(F function) {
    return std::thread(std::move(function));
  }
};

}  // namespace heddle::testing
