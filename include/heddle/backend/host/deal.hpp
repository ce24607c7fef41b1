// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <heddle/backend/host/thread_team.hpp>
#include <heddle/backend/host/workspace.hpp>

#include <cstddef>

/// How primitives deal their work to the threads of their rank.
namespace heddle::host::detail {

/// f(part) for each part of 0..parts-1: dealt to the team of this thread, else in order. With `bytes`, f(part, memory)
/// with that much memory, aligned to 128 bytes; on this thread it is `mine`, unless that is null.
template <class F>
inline void deal(std::size_t parts, F const& f) {
  thread_team* const team = parts > 1 ? thread_team::of_this_thread() : nullptr;
  if (team == nullptr)
    for (std::size_t part = 0; part < parts; ++part) f(part);
  else
    team->run(parts, [&f](std::size_t part, std::size_t) { f(part); });
}
template <class F>
inline void deal(std::size_t parts, std::size_t bytes, std::byte* mine, F const& f) {
  thread_team* const team = parts > 1 ? thread_team::of_this_thread() : nullptr;
  if (team == nullptr) {
    std::byte* const memory = mine != nullptr ? mine : workspace::of_this_thread().get(bytes);
    for (std::size_t part = 0; part < parts; ++part) f(part, memory);
  } else {
    team->reserve(bytes, mine);
    team->run(parts, [&f, team](std::size_t part, std::size_t member) { f(part, team->memory_of(member)); });
  }
}

/// f(begin, end) for pieces of 0..n-1 that are a multiple of `grain` but for the last; one piece for a thread alone.
/// For work that has the same result however it is cut.
template <class F>
inline void deal_ranges(std::size_t n, std::size_t grain, F const& f) {
  if (n <= grain || thread_team::of_this_thread() == nullptr) {
    if (n > 0) f(std::size_t{0}, n);
    return;
  }
  constexpr std::size_t most = 1024;
  std::size_t const groups = (n + grain - 1) / grain;
  std::size_t const length = (groups + most - 1) / most * grain;
  deal((n + length - 1) / length, [&](std::size_t part) {
    std::size_t const begin = part * length;
    f(begin, n - begin < length ? n : begin + length);
  });
}

}  // namespace heddle::host::detail
