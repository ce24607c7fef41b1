// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <heddle/layout/name.hpp>
#include <string_view>

namespace heddle {

/// The most dimensions a tensor, or the iteration space of an op, can have.
inline constexpr std::size_t max_rank = 8;

/// A dimension as the constexpr algebra sees it. `size` is its meaning, `stored` (>= size) what all ranks together
/// store: more than `size` only where padding was asked for.
struct dimension {
  name_id name = 0;
  std::string_view text;
  std::size_t size = 1;
  std::size_t stored = 1;
};

/// An ordered list of dimensions: a tensor's shape, row-major, or an op's iteration space.
struct dimension_list {
  std::size_t rank = 0;
  std::array<dimension, max_rank> dim{};

  [[nodiscard]] constexpr std::size_t index_of(name_id name) const {
    std::size_t k = 0;
    while (k < rank && dim[k].name != name) ++k;
    return k;
  }
  [[nodiscard]] constexpr bool has(name_id name) const { return index_of(name) < rank; }
  [[nodiscard]] constexpr std::size_t size() const {
    std::size_t n = 1;
    for (std::size_t k = 0; k < rank; ++k) n *= dim[k].size;
    return n;
  }
  constexpr void append(dimension const& d) { dim[rank++] = d; }
};

/// The iteration space of an op on `a` and `b`: every dimension once, `a`'s first.
constexpr dimension_list union_of(dimension_list a, dimension_list const& b) {
  for (std::size_t k = 0; k < b.rank; ++k)
    if (!a.has(b.dim[k].name)) a.append(b.dim[k]);
  return a;
}

/// A named dimension with its global size: `dim<embed, 768>`.
template <class Name, std::size_t Size>
struct dim {
  static_assert(DimName<Name>,
                "dim<Name, Size>: 'Name' must be a dimension name; derive a tag from dim_name<\"...\"> and use that");
  static_assert(Size > 0, "dim<Name, Size>: 'Size' must be at least 1; leave the dimension out or give it a size");
  using name = Name;
  static constexpr std::size_t size = Size;
  static constexpr dimension value = {id_v<Name>, Name::name, Size, Size};
};

template <class D>
concept Dim = DimName<typename D::name> && requires {
  D::value.size;
};

/// A row-major shape of named dimensions: `dims<dim<batch, 4>, dim<embed, 768>>`.
template <class... Ds>
struct dims {
  static_assert((Dim<Ds> && ...), "dims<Ds...>: each argument must be a dim<Name, Size>; wrap the name");
  static_assert(sizeof...(Ds) <= max_rank, "dims<Ds...>: must have at most max_rank dimensions; merge some of them");
  static constexpr std::size_t rank = sizeof...(Ds);
  static constexpr dimension_list value = {sizeof...(Ds), {{Ds::value...}}};

 private:
  /// Bytes and traffic are counted in 64 bits, of a few copies of this.
  static constexpr bool countable() {
    std::size_t most = std::size_t{1} << 56;
    for (std::size_t k = 0; k != value.rank; ++k)
      if ((most /= value.dim[k].size == 0 ? 1 : value.dim[k].size) == 0) return false;
    return true;
  }
  static_assert(countable(), "dims<Ds...>: must have at most 2^56 elements; make a dimension smaller");
  static constexpr bool names_differ() {
    for (std::size_t k = 0; k != value.rank; ++k)
      if (value.index_of(value.dim[k].name) != k) return false;
    return true;
  }
  static_assert(names_differ(), "dims<Ds...>: each dimension name must appear once; rename one of the two");
};

/// The next size that `ways` ranks can share in pieces that are multiples of `multiple`: the one place where a padded
/// size is computed (Megatron-LM, arXiv 1909.08053 §5.1, pads the vocabulary with multiple = 128).
constexpr std::size_t padded_size(std::size_t size, std::size_t ways, std::size_t multiple = 1) {
  std::size_t const unit = ways * multiple;
  return (size + unit - 1) / unit * unit;
}

}  // namespace heddle
