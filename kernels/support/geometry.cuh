// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <support/vector.cuh>

/// The grids of the kernels, and the sizes of their workspaces, as constants where the sizes are: a plan counts the
/// workspaces, and a captured graph keeps the grids. Blocks have the `Threads` of the kernel's last template argument,
/// and no grid is of size 0.
///
/// One rule says how many rows there are: where each block has one row, it is the grid; where blocks share the rows,
/// it is an argument. The number of shares, `parts`, is a constant of the plan, since the order of the sums depends on
/// it: taken from the device ("some blocks a multiprocessor"), it would give each device bits of its own.
namespace heddle::kernels {

namespace detail {
constexpr unsigned blocks_for(long long n, long long a_block) {
  return static_cast<unsigned>((n + a_block - 1) / a_block);
}
}  // namespace detail

/// A block for each row (or sum, or chunk): norms forward, cross-entropy but for its loss, `embedding_forward`,
/// `rotary`, `sum_parts`, and all that runs over a list of tensors.
constexpr dim3 row_grid(std::size_t rows) { return dim3(static_cast<unsigned>(rows)); }

/// A block for each share of the rows: norms backward.
constexpr dim3 part_grid(int parts) { return dim3(static_cast<unsigned>(parts)); }

/// A thread for a pack of columns of a share of the rows: `columns_of_thread`.
template <class T, int Threads>
constexpr dim3 column_grid(int width, int parts) {
  return dim3(detail::blocks_for(width, static_cast<long long>(Threads) * pack_width<T>), static_cast<unsigned>(parts));
}

/// Elements of what the kernels of these two grids leave for `add_parts`.
constexpr std::size_t parts_size(int parts, int width) {
  return static_cast<std::size_t>(parts) * static_cast<std::size_t>(width);
}
/// `add_parts` itself.
template <int Threads>
constexpr dim3 add_parts_grid(int width) {
  static_assert(Threads % 32 == 0);
  return dim3(detail::blocks_for(width, Threads / 8));
}

/// A thread for a pack of n elements, but at most `most` blocks, whose threads take further ones by turns; results do
/// not depend on it: activations alone, `dropout`.
template <class T, int Threads>
constexpr dim3 pack_grid(long long n, unsigned most) {
  unsigned const all = detail::blocks_for(n, static_cast<long long>(Threads) * pack_width<T>);
  return dim3(all < most ? all : most);
}

/// A thread for a row, but at most `most` blocks: `cross_entropy_loss`, whose workspace has an element a block, so that
/// the order of its sum depends on `most`, a constant.
template <int Threads>
constexpr dim3 thread_grid(long long rows, unsigned most = ~0U) {
  unsigned const all = detail::blocks_for(rows, Threads);
  return dim3(all < most ? all : most);
}

/// A block for each row, times those that have a thread for each pack of the width: `embedding_backward`.
template <class T, int Threads>
constexpr dim3 embedding_grid(std::size_t rows, int width) {
  return dim3(static_cast<unsigned>(rows), detail::blocks_for(width, static_cast<long long>(Threads) * pack_width<T>));
}

}  // namespace heddle::kernels
