// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <heddle/precision/precision.hpp>
#include <string_view>
#include <type_traits>

namespace heddle {

/// Numbers of 16 bits where nothing is computed: a ledger for a backend that has no type of its own for them.
enum class bfloat16_bits : std::uint16_t {};
enum class float16_bits : std::uint16_t {};

namespace detail {

template <dtype>
struct element_of {
  using type = float;
};
template <>
struct element_of<dtype::float64> {
  using type = double;
};
template <>
struct element_of<dtype::bfloat16> {
  using type = bfloat16_bits;
};
template <>
struct element_of<dtype::float16> {
  using type = float16_bits;
};

template <class Backend, dtype Type>
struct backend_element : element_of<Type> {};
template <class Backend, dtype Type>
requires requires { typename Backend::template element<Type>; }
struct backend_element<Backend, Type> {
  using type = typename Backend::template element<Type>;
};

/// The backend whose products round their operands to `Compute`.
template <class Backend, dtype Compute>
struct computing_backend {
  using type = Backend;
};
template <class Backend>
requires requires { typename Backend::tfloat32_products; }
struct computing_backend<Backend, dtype::tfloat32> {
  using type = typename Backend::tfloat32_products;
};

}  // namespace detail

/// A format's element type on a backend: the one that it computes with (`Backend::element<dtype>`).
template <class Backend, dtype Type>
using element_on = typename detail::backend_element<Backend, Type>::type;

/// Whether a backend's products round their operands to `Compute`: tf32 is a variant of its own
/// (`Backend::tfloat32_products`), without which it would be fp32.
template <class Backend, dtype Compute>
concept ComputesIn = Compute != dtype::tfloat32 || requires {
  typename Backend::tfloat32_products;
};
/// Whether a backend has numbers of `Storage` that it computes with. A ledger needs none.
template <class Backend, dtype Storage>
concept StoresIn = bytes_of(Storage)
!= 2 || requires { typename Backend::template element<Storage>; };

/// How an element type is called in reports and names of files.
template <class T>
inline constexpr std::string_view element_name = "unknown";
template <>
inline constexpr std::string_view element_name<float> = name_of(dtype::float32);
template <>
inline constexpr std::string_view element_name<double> = name_of(dtype::float64);
template <>
inline constexpr std::string_view element_name<bfloat16_bits> = name_of(dtype::bfloat16);
template <>
inline constexpr std::string_view element_name<float16_bits> = name_of(dtype::float16);

/// The element types of a plan on a backend, by what a number is for.
template <class Value, class Gradient, class Travelling, class Master>
struct element_types {
  using value = Value;            ///< parameters and activations; a gradient as a module leaves it
  using gradient = Gradient;      ///< gradients added up over micro-batches, and reduced ones
  using travelling = Travelling;  ///< gradients between ranks; between the stages that share a parameter, `gradient`
  using master = Master;          ///< what the optimizer updates, and its state
  /// Whether parameters are rounded copies of master weights.
  static constexpr bool has_master = !std::is_same_v<Value, Master>;
  /// Whether gradients are added up elsewhere than where modules leave them.
  static constexpr bool widens_gradients = !std::is_same_v<Value, Gradient>;
};

}  // namespace heddle
