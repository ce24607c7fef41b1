// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <support/accumulator.cuh>

namespace heddle::kernels {

/// Elements `begin`, `begin + 1`, … of tensor `tensor` of a list, up to a chunk's length or the tensor's end: the work
/// of one block. The caller writes a chunk for each `length` elements of each tensor, in order, once per list; so one
/// launch has as many blocks as there is work, whatever the sizes, and a tensor without elements has no chunk. A length
/// that is a multiple of 8 keeps the chunks of aligned tensors aligned. Grid of what runs over a list: `row_grid` of
/// the chunks, of which a tensor has `chunk_count`.
struct tensor_chunk {
  long long begin;
  int tensor;
};

constexpr long long chunk_count(long long size, int length) { return (size + length - 1) / length; }

/// How many elements of a tensor of `size` the chunk has.
__device__ inline int chunk_size(tensor_chunk const& chunk, int length, long long size) {
  return size - chunk.begin < length ? static_cast<int>(size - chunk.begin) : length;
}

/// x[size] of a list in device memory.
template <class T>
struct listed_tensor {
  T const* x;
  long long size;
};

}  // namespace heddle::kernels
