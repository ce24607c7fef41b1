// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <heddle/backend/host.hpp>
#include <thread>
#include <vector>

namespace bench {

/// Independent multiply-adds of fp32 that stay in registers: what the core's units can do. `flop` of them a call.
struct multiply_adds {
  static constexpr std::size_t chains = 12, turns = 10'000, lane = heddle::host::detail::lane_count_v<float>;
  static constexpr double flop = 2.0 * chains * turns * lane;

  void operator()() const {
    using vector = heddle::host::detail::lanes<float>;
    vector sum[chains];
    for (std::size_t i = 0; i < chains; ++i) sum[i] = vector{} + static_cast<float>(i);
    vector factor = vector{} + 0.999F, more = vector{} + 0.001F;
    asm volatile("" : "+m"(factor), "+m"(more));
    for (std::size_t t = 0; t < turns; ++t)
      for (std::size_t i = 0; i < chains; ++i) sum[i] = sum[i] * factor + more;
    for (auto& s : sum) asm volatile("" : "+m"(s));
  }
};

/// Operations a second of `threads` threads that do nothing else at the same time: the best of some tries.
inline double peak_of(std::size_t threads) {
  using clock = std::chrono::steady_clock;
  constexpr int tries = 5, calls = 200;
  multiply_adds const work;
  std::barrier together(static_cast<std::ptrdiff_t>(threads));
  std::vector<double> best(threads);
  auto const measure = [&](std::size_t t) {
    work();
    for (int n = 0; n < tries; ++n) {
      together.arrive_and_wait();
      auto const begin = clock::now();
      for (int c = 0; c < calls; ++c) work();
      together.arrive_and_wait();
      std::chrono::duration<double> const spent = clock::now() - begin;
      best[t] = std::max(best[t], static_cast<double>(threads) * calls * multiply_adds::flop / spent.count());
    }
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < threads; ++t) others.emplace_back(measure, t);
  measure(0);
  for (std::thread& one : others) one.join();
  return best[0];
}

}  // namespace bench
