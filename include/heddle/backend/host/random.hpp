// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <heddle/backend/host/deal.hpp>
#include <heddle/backend/host/random_words.hpp>
#include <heddle/tensor/accumulation.hpp>
#include <heddle/tensor/argument_checks.hpp>
#include <heddle/tensor/index_map.hpp>
#include <heddle/tensor/random_key.hpp>

namespace heddle::host {

namespace detail {

/// Elements handled at a time: their words stay in the first-level cache.
inline constexpr std::size_t random_chunk = 512;

/// Calls `use(local_begin, count, words…)` for pieces of the real elements `begin`..`end - 1` of `map`, with `Draws`
/// pointers to `count` words each, the words of those elements.
template <std::size_t Draws, class Use>
void for_each_drawn_of(std::size_t begin, std::size_t end, index_map const& map, random_stream const& stream,
                       Use const& use) {
  static_assert(Draws == 1 || Draws == 2, "for_each_drawn<Draws>: 'Draws' must be 1 or 2");
  std::uint32_t words[Draws][random_chunk + 8];
  std::uint64_t const step = map.rank == 0 ? 1 : map.stride[map.rank - 1];
  auto const draw_run = [&](std::size_t local, std::size_t count, std::uint64_t global) {
    while (count > 0) {
      std::size_t const n = count < random_chunk ? count : random_chunk;
      std::size_t skipped = 0;
      for (std::uint32_t draw = 0; draw < Draws; ++draw) {
        if (step == 1) {
          skipped = static_cast<std::size_t>(global % 4);
          philox_words(stream, global / 4, (skipped + n + 3) / 4, draw, words[draw]);
        } else {
          for (std::size_t i = 0; i < n; ++i) words[draw][i] = stream.word(global + i * step, draw);
        }
      }
      if constexpr (Draws == 1)
        use(local, n, words[0] + skipped);
      else
        use(local, n, words[0] + skipped, words[1] + skipped);
      local += n;
      count -= n;
      global += n * step;
    }
  };
  for_each_run(map, [&](std::size_t local, std::size_t count, std::uint64_t global) {
    if (local >= end || local + count <= begin) return;
    if (local < begin) {
      global += (begin - local) * step;
      count -= begin - local;
      local = begin;
    }
    if (count > end - local) count = end - local;
    draw_run(local, count, global);
  });
}

/// The same for all of them, dealt to the threads of the rank.
template <std::size_t Draws, class Use>
void for_each_drawn(index_map const& map, random_stream const& stream, Use const& use) {
  index_map const runs = merged(map);
  std::size_t const n = map.size(), parts = 16;
  deal_ranges(n, n < 8 * random_chunk * parts ? 8 * random_chunk : n / parts,
              [&](std::size_t begin, std::size_t end) { for_each_drawn_of<Draws>(begin, end, runs, stream, use); });
}

inline bool has_padding(index_map const& map) {
  for (std::size_t k = 0; k < map.rank; ++k)
    if (map.valid[k] != map.extent[k]) return true;
  return false;
}

template <class T>
void clear_padding(T* x, index_map const& map) {
  if (has_padding(map)) std::memset(static_cast<void*>(x), 0, map.size() * sizeof(T));
}

/// out = mask·in / (1 - p), with the mask of the key; plus `base` where `Onto`.
template <bool Onto, class T>
void dropout_apply(T const* in, T const* base, T* out, index_map const& map, random_key const& key, double p) {
  // In place, padding holds zeros already.
  if (in != out && has_padding(map)) {
    if constexpr (Onto)
      std::memmove(static_cast<void*>(out), base, map.size() * sizeof(T));
    else
      std::memset(static_cast<void*>(out), 0, map.size() * sizeof(T));
  }
  std::uint32_t const limit = dropout_limit(p);
  using A = accumulation_t<T>;
  A const scale = static_cast<A>(1.0 / (1.0 - p));
  for_each_drawn<1>(map, random_stream{key}, [&](std::size_t begin, std::size_t count, std::uint32_t const* words) {
    T const* from = in + begin;
    T* to = out + begin;
    // With a base in two turns: in one, compilers fuse product and sum in some elements and not in others.
    using kept_type = std::conditional_t<Onto, A, T>;
    [[maybe_unused]] A own[Onto ? random_chunk : 1];
    kept_type* kept = nullptr;
    if constexpr (Onto)
      kept = own;
    else
      kept = to;
    for (std::size_t i = 0; i < count; ++i) {
      // Selected, not multiplied by 0: a dropped infinity is 0 as well, forward and backward.
      A const scaled = static_cast<A>(from[i]) * scale;
      kept[i] = static_cast<kept_type>(words[i] > limit ? scaled : A(0));
    }
    if constexpr (Onto)
      for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<T>(static_cast<A>(base[begin + i]) + kept[i]);
  });
}

}  // namespace detail

/// Random numbers that depend on the key and the global index of each element alone (`random_key`): every rank writes
/// its part of one tensor, whatever the layout. `map` says which elements these are; padding is set to 0. Moves
/// nothing, allocates nothing. Values in float are the values in double, rounded.
struct random {
  /// x = mean + stddev · normal (see `heddle::normal`).
  template <class T>
  static void fill_normal(T* x, index_map const& map, random_key const& key, double mean, double stddev) {
    detail::clear_padding(x, map);
    detail::for_each_drawn<2>(
        map, random_stream{key},
        [&](std::size_t begin, std::size_t count, std::uint32_t const* w0, std::uint32_t const* w1) {
          // In turns, because only the square root keeps a loop from being vectorised.
          double radius[detail::random_chunk], cosine[detail::random_chunk];
          for (std::size_t i = 0; i < count; ++i) radius[i] = heddle::detail::normal_radius_squared(w0[i]);
          for (std::size_t i = 0; i < count; ++i) cosine[i] = heddle::detail::normal_cosine(w1[i]);
          for (std::size_t i = 0; i < count; ++i)
            x[begin + i] = static_cast<T>(std::fma(stddev, std::sqrt(radius[i]) * cosine[i], mean));
        });
  }

  /// x = low + (high - low) · uniform, in [low, high) up to rounding to T.
  template <class T>
  static void fill_uniform(T* x, index_map const& map, random_key const& key, double low, double high) {
    detail::clear_padding(x, map);
    double const width = high - low;
    detail::for_each_drawn<1>(map, random_stream{key},
                              [&](std::size_t begin, std::size_t count, std::uint32_t const* words) {
                                for (std::size_t i = 0; i < count; ++i)
                                  x[begin + i] = static_cast<T>(std::fma(width, uniform<double>(words[i]), low));
                              });
  }

  /// y = x / (1 - p) where `uniform<double>(word) >= p`, else 0 (Srivastava et al. 2014, scaled at training time); plus
  /// `base` unless that is null. p in [0, 1), p = 0 copies. y may be x or base. The mask is its own adjoint: backward
  /// draws it again from the same key, and nothing is saved. Throws `heddle::error` for another p.
  template <class T>
  static void dropout(T const* x, std::type_identity_t<T> const* base, T* y, index_map const& map,
                      random_key const& key, double p) {
    check_dropout_probability(p);
    if (p == 0.0) {
      for (std::size_t i = 0; i < map.size(); ++i)
        y[i] = base != nullptr
                   ? static_cast<T>(static_cast<accumulation_t<T>>(base[i]) + static_cast<accumulation_t<T>>(x[i]))
                   : x[i];
      return;
    }
    if (base != nullptr)
      detail::dropout_apply<true>(x, base, y, map, key, p);
    else
      detail::dropout_apply<false>(x, base, y, map, key, p);
  }
};

}  // namespace heddle::host
