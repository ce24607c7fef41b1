// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <heddle/layout/dim.hpp>
#include <tuple>
#include <utility>

namespace heddle::detail {

template <class A, class B>
struct concatenation;
template <class... As, class... Bs>
struct concatenation<dims<As...>, dims<Bs...>> {
  using type = dims<As..., Bs...>;
};
/// The dimensions of `A`, then those of `B`.
template <class A, class B>
using concatenation_t = typename concatenation<A, B>::type;

template <class D, std::size_t From, class Indices>
struct dims_slice;
template <class... Ds, std::size_t From, std::size_t... Index>
struct dims_slice<dims<Ds...>, From, std::index_sequence<Index...>> {
  using type = dims<std::tuple_element_t<From + Index, std::tuple<Ds...>>...>;
};
/// The first N dimensions.
template <class D, std::size_t N>
using leading_t = typename dims_slice<D, 0, std::make_index_sequence<N>>::type;
/// The last N dimensions.
template <class D, std::size_t N>
using trailing_t = typename dims_slice<D, D::rank - N, std::make_index_sequence<N>>::type;

/// `Input` with its last dimensions, which must be `In`, replaced by `Out`. `Module` is whom the message names.
template <class Module, class Input, class In, class Out>
struct replaced {
  static constexpr bool fits = [] {
    if (Input::rank < In::rank) return false;
    for (std::size_t k = 0; k < In::rank; ++k) {
      auto const& have = Input::value.dim[Input::rank - In::rank + k];
      if (have.name != In::value.dim[k].name || have.size != In::value.dim[k].size) return false;
    }
    return true;
  }();
  static_assert(
      fits,
      "module<In, Out>: the input's last dimensions must be 'In', in name, size and order; change 'In', or the "
      "module before it");
  template <bool Fits, class Dummy = void>
  struct choose {
    using type = concatenation_t<leading_t<Input, Input::rank - In::rank>, Out>;
  };
  template <class Dummy>
  struct choose<false, Dummy> {
    using type = Out;
  };
  using type = typename choose<fits>::type;
};
template <class Module, class Input, class In, class Out>
using replaced_t = typename replaced<Module, Input, In, Out>::type;

/// Local elements of some dimensions together, in an op's place.
template <class Place, class D>
struct local_product;
template <class Place, class... Ds>
struct local_product<Place, dims<Ds...>> {
  static constexpr std::size_t value = (std::size_t{1} * ... * Place::template extent<typename Ds::name>);
};
template <class Place, class D>
inline constexpr std::size_t local_product_v = local_product<Place, D>::value;

}  // namespace heddle::detail
