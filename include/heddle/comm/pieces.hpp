// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>

namespace heddle::comm {

/// A value whose elements lie in several places, one piece after the other: `pieces(list)` of a vector or an array of
/// std::span. The list stays the caller's; of an asynchronous call it must, like the data, stay as it is until the call
/// has ended. Pieces are apart.
template <class T>
class pieces {
 public:
  constexpr pieces() = default;
  template <class List>
  constexpr explicit pieces(List const& list) : first_(list.data()), size_(list.size()) {}

  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr std::span<T> const* data() const { return first_; }
  [[nodiscard]] constexpr std::span<T> const& operator[](std::size_t i) const { return first_[i]; }
  /// Of all pieces together.
  [[nodiscard]] constexpr std::size_t elements() const {
    std::size_t all = 0;
    for (std::size_t i = 0; i < size_; ++i) all += first_[i].size();
    return all;
  }

 private:
  std::span<T> const* first_ = nullptr;
  std::size_t size_ = 0;
};
template <class List>
pieces(List const&) -> pieces<typename List::value_type::element_type>;

/// Communicators whose reductions leave their result in `pieces`: that of an all-reduce, where the operands are, too,
/// and a rank's chunk of a reduce-scatter. Of an all-reduce ranks pass pieces of the same sizes in the same order;
/// calls, traffic and bits are those of the same value in one piece.
template <class C>
concept ReducesPieces = requires {
  requires C::reduces_pieces;
};

}  // namespace heddle::comm
