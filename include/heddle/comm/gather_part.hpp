// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>

namespace heddle::comm {

/// One of several all-gathers that are made together: `in` is this rank's chunk of `out`, and may be that part of it.
///
/// With `rows`, which communicators take that are `GathersRows`, `out` is that many rows, of which each has a piece of
/// every rank, in their order: [rows, ranks, …] from `in`, [rows, …]. The two are apart then.
template <class T>
struct gather_part {
  using element = T;
  std::span<T const> in{};
  std::span<T> out{};
  std::size_t rows = 1;
};

/// Communicators that bring the chunks of an all-gather to where they belong in rows, and not only one after the other.
template <class C>
concept GathersRows = requires {
  requires C::gathers_rows;
};

/// A list of them, which stays the caller's: `gather_parts(list)` of a vector or an array. A std::span of parts would
/// cost every program some 350 template instantiations.
template <class T>
class gather_parts {
 public:
  constexpr gather_parts() = default;
  template <class List>
  constexpr explicit gather_parts(List const& list) : first_(list.data()), size_(list.size()) {}

  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr gather_part<T> const* data() const { return first_; }
  [[nodiscard]] constexpr gather_part<T> const* begin() const { return first_; }
  [[nodiscard]] constexpr gather_part<T> const* end() const { return first_ + size_; }

 private:
  gather_part<T> const* first_ = nullptr;
  std::size_t size_ = 0;
};
template <class List>
gather_parts(List const&) -> gather_parts<typename List::value_type::element>;

}  // namespace heddle::comm
