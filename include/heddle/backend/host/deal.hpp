// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/thread_team.hpp>
#include <heddle/backend/host/workspace.hpp>

#include <cstddef>

/// How primitives deal their work to the threads of their rank.
namespace heddle::host::detail {

// A part is computed by one and the same code whoever computes it: a compiler that has a body twice, for a thread alone
// and for a team, may contract a sum of products to another fused multiply-add in either, and the bits would depend on
// the number of threads. nvcc's front end does not know the second attribute.
#if defined(__clang__) || defined(__CUDACC__)
#define HEDDLE_COMPILED_ONCE [[gnu::noinline]]
#else
#define HEDDLE_COMPILED_ONCE [[gnu::noinline, gnu::noclone]]
#endif

/// f(arguments…), with a copy of f, which no store can be taken to change.
template <class F, class... Arguments>
HEDDLE_COMPILED_ONCE inline void compute_part(F const& f, Arguments... arguments) {
  F const own = f;
  own(arguments...);
}

/// f(part) for each part of 0..parts-1: dealt to the team of this thread, else in order. With `bytes`, f(part, memory)
/// with that much memory, aligned to 128 bytes; on this thread it is `mine`, unless that is null.
template <class F>
inline void deal(std::size_t parts, F const& f) {
  thread_team* const team = parts > 1 ? thread_team::of_this_thread() : nullptr;
  if (team == nullptr)
    for (std::size_t part = 0; part < parts; ++part) compute_part(f, part);
  else
    team->run(parts, [&f](std::size_t part, std::size_t) { compute_part(f, part); });
}
template <class F>
inline void deal(std::size_t parts, std::size_t bytes, std::byte* mine, F const& f) {
  thread_team* const team = parts > 1 ? thread_team::of_this_thread() : nullptr;
  if (team == nullptr) {
    std::byte* const memory = mine != nullptr ? mine : workspace::of_this_thread().get(bytes);
    for (std::size_t part = 0; part < parts; ++part) compute_part(f, part, memory);
  } else {
    team->reserve(bytes, mine);
    team->run(parts,
              [&f, team](std::size_t part, std::size_t member) { compute_part(f, part, team->memory_of(member)); });
  }
}

/// f(begin, end) for pieces of 0..n-1 that are a multiple of `grain` but for the last; one piece for a thread alone.
/// For work that has the same result however it is cut.
template <class F>
inline void deal_ranges(std::size_t n, std::size_t grain, F const& f) {
  if (n <= grain || thread_team::of_this_thread() == nullptr) {
    if (n > 0) compute_part(f, std::size_t{0}, n);
    return;
  }
  constexpr std::size_t most = 1024;
  std::size_t const groups = (n + grain - 1) / grain;
  std::size_t const length = (groups + most - 1) / most * grain;
  deal((n + length - 1) / length, [&](std::size_t part) {
    std::size_t const begin = part * length;
    compute_part(f, begin, n - begin < length ? n : begin + length);
  });
}

#undef HEDDLE_COMPILED_ONCE

}  // namespace heddle::host::detail
