// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include <heddle/comm/detail/joined.hpp>
#include <heddle/comm/element.hpp>
#include <heddle/comm/reduction.hpp>

namespace heddle::comm::detail {

/// out[i] = the join of sources[0][offset + i], sources[1][offset + i], …, always in that order. `out` may be the same
/// memory as one of the sources at `offset`: every block is read from all sources before it is written.
template <reduction How, class T>
void reduce_ranks(void const* const* sources, std::size_t ranks, std::size_t offset, std::size_t count, void* out) {
  using accumulator = typename element_traits<T>::accumulator;
  constexpr std::size_t block = 256;
  accumulator sum[block];
  T* const result = static_cast<T*>(out);
  for (std::size_t at = 0; at < count; at += block) {
    std::size_t const n = count - at < block ? count - at : block;
    T const* first = static_cast<T const*>(sources[0]) + offset + at;
    for (std::size_t i = 0; i < n; ++i) sum[i] = static_cast<accumulator>(first[i]);
    for (std::size_t r = 1; r < ranks; ++r) {
      T const* const next = static_cast<T const*>(sources[r]) + offset + at;
      if (n == block) {  // a constant trip count, so that -O2 vectorises it
        for (std::size_t i = 0; i < block; ++i) sum[i] = joined<How>(sum[i], static_cast<accumulator>(next[i]));
      } else {
        for (std::size_t i = 0; i < n; ++i) sum[i] = joined<How>(sum[i], static_cast<accumulator>(next[i]));
      }
    }
    for (std::size_t i = 0; i < n; ++i) result[at + i] = static_cast<T>(sum[i]);
  }
}

using reduce_function = void (*)(void const* const*, std::size_t, std::size_t, std::size_t, void*);

template <class T>
constexpr reduce_function reduce_function_for(reduction how) {
  switch (how) {
    case reduction::sum:
      return &reduce_ranks<reduction::sum, T>;
    case reduction::max:
      return &reduce_ranks<reduction::max, T>;
    case reduction::min:
      return &reduce_ranks<reduction::min, T>;
  }
  return nullptr;
}

}  // namespace heddle::comm::detail
