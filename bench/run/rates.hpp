// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

namespace bench {

/// What a benchmark's rate counts, per second.
enum class unit { flop, byte, element };

/// Registers a benchmark. `make` gives the work with its buffers, so that no two benchmarks hold theirs at a time;
/// `amount` is what one call of the work does.
template <class Make>
void rate(std::string const& name, double amount, unit what, Make make) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    auto work = make();
    work();
    for (auto _ : state) {
      work();
      benchmark::ClobberMemory();
    }
    char const* const unit_name = what == unit::flop ? "FLOP" : what == unit::byte ? "bytes" : "elements";
    state.counters[unit_name] =
        benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
  })->Unit(benchmark::kMicrosecond);
}

template <class T = float>
std::vector<T> values(std::size_t n) {
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(std::sin(static_cast<double>(i) * 1.7));
  return x;
}

inline int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace bench
