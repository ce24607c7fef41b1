// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <heddle/backend/cuda/execution.hpp>
#include <vector>

namespace bench {

/// Seconds of one call of `work`, which gives work to the calling thread's device: the median of five times as many
/// calls as take `least_seconds`, after as many that are not counted. The device has them in its stream one after the
/// other, so what the host needs to give them does not count, where a call is long enough.
template <class Work>
double seconds_of(double least_seconds, Work const& work) {
  using clock = std::chrono::steady_clock;
  auto const& stream = heddle::cuda::execution::current().compute();
  auto const time_of = [&](std::size_t calls) {
    stream.synchronize();
    auto const begin = clock::now();
    for (std::size_t i = 0; i < calls; ++i) work();
    stream.synchronize();
    return std::chrono::duration<double>(clock::now() - begin).count();
  };
  std::size_t calls = 1;
  double took = (time_of(1), time_of(1));
  while (took < least_seconds && calls < 1'000'000) {
    calls = took <= 0 ? 2 * calls
                      : std::max(calls + 1,
                                 static_cast<std::size_t>(1.2 * least_seconds / took * static_cast<double>(calls)));
    took = time_of(calls);
  }
  std::vector<double> tries;
  for (int n = 0; n < 5; ++n) tries.push_back(time_of(calls) / static_cast<double>(calls));
  std::sort(tries.begin(), tries.end());
  return tries[tries.size() / 2];
}

}  // namespace bench
