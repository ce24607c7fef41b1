// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace heddle::kernels {

/// The positions 0..rows - 1 of those tokens that a table of ids `first`..`first + vocabulary - 1` holds, sorted by id
/// and, of one id, in their order: id `segment_id[s] + first` stands at the positions order[segment_begin[s]] to
/// order[segment_begin[s + 1] - 1]. Returns the number of segments, the distinct ids, which `embedding_backward` finds
/// in device memory, too. A counting sort in O(rows + vocabulary), for the host, which has the tokens first. Room:
/// order and segment_id for `rows`, segment_begin for rows + 1, count for vocabulary + 1.
inline int token_order(int rows, int vocabulary, std::int32_t const* tokens, long long first, int* order,
                       int* segment_begin, int* segment_id, int* count) {
  for (int id = 0; id <= vocabulary; ++id) count[id] = 0;
  for (int row = 0; row < rows; ++row) {
    long long const id = tokens[row] - first;
    if (id >= 0 && id < vocabulary) ++count[id + 1];
  }
  int segments = 0;
  segment_begin[0] = 0;
  for (int id = 0; id < vocabulary; ++id) {
    if (count[id + 1] > 0) {
      segment_id[segments] = id;
      segment_begin[++segments] = count[id] + count[id + 1];
    }
    count[id + 1] += count[id];
  }
  for (int row = 0; row < rows; ++row) {
    long long const id = tokens[row] - first;
    if (id >= 0 && id < vocabulary) order[count[id]++] = row;
  }
  return segments;
}

}  // namespace heddle::kernels
