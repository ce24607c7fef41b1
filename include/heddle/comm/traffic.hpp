// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace heddle::comm {

// How many elements one rank sends, by the algorithms every communicator follows or is measured against: those of a
// ring (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009 §3). `ranks` is the size of the group,
// which is at least 1; `rank` the position in it; `count` the elements of the whole value, that is of the longer side.

/// The length of chunk `rank` when `count` elements are cut into `ranks` balanced chunks: the first `count % ranks` are
/// one longer. The chunk that `reduce_scatter` leaves on that rank, and that `all_gather` takes from it.
[[nodiscard]] constexpr std::size_t chunk_count(std::size_t count, std::size_t ranks, std::size_t rank) {
  return count / ranks + (rank < count % ranks ? 1 : 0);
}

/// Where that chunk begins.
[[nodiscard]] constexpr std::size_t chunk_begin(std::size_t count, std::size_t ranks, std::size_t rank) {
  std::size_t const longer = count % ranks;
  return rank * (count / ranks) + (rank < longer ? rank : longer);
}

/// Elements sent by `rank` in a reduce-scatter of `count` elements: all but its own chunk.
[[nodiscard]] constexpr std::size_t reduce_scatter_sent(std::size_t count, std::size_t ranks, std::size_t rank) {
  return count - chunk_count(count, ranks, rank);
}

/// Elements sent by `rank` in an all-gather to `count` elements: its own chunk, to every other rank.
[[nodiscard]] constexpr std::size_t all_gather_sent(std::size_t count, std::size_t ranks, std::size_t rank) {
  return chunk_count(count, ranks, rank) * (ranks - 1);
}

/// Elements sent by `rank` in an all-reduce of `count` elements: reduce-scatter, then all-gather; 2(n-1)/n·count where
/// n divides count.
[[nodiscard]] constexpr std::size_t all_reduce_sent(std::size_t count, std::size_t ranks, std::size_t rank) {
  return reduce_scatter_sent(count, ranks, rank) + all_gather_sent(count, ranks, rank);
}

/// Elements sent by every rank in an all-to-all of equal blocks of `count / ranks` elements: all but its own block.
[[nodiscard]] constexpr std::size_t all_to_all_sent(std::size_t count, std::size_t ranks) {
  return count - count / ranks;
}

/// Elements sent by `rank` in a broadcast of `count` elements from `root`: the root sends to every other rank.
[[nodiscard]] constexpr std::size_t broadcast_sent(std::size_t count, std::size_t ranks, std::size_t rank,
                                                   std::size_t root) {
  return rank == root ? count * (ranks - 1) : 0;
}

/// Elements sent by the sending side of a transfer of `count` elements; the receiving side sends none.
[[nodiscard]] constexpr std::size_t send_sent(std::size_t count) { return count; }

}  // namespace heddle::comm
