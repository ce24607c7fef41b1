// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace heddle {

/// Element types that a precision policy can name.
enum class dtype : std::uint8_t { float32, float64 };

/// Which element types a run uses. Parameters, gradients, optimizer state and activations are all of type `storage`.
struct precision_policy {
  dtype storage = dtype::float32;
  friend constexpr bool operator==(precision_policy const&, precision_policy const&) = default;
};

/// Everything in one type: `precision<fp32>`.
inline constexpr precision_policy fp32{dtype::float32};
inline constexpr precision_policy fp64{dtype::float64};

namespace detail {
template <dtype>
struct element_of;
template <>
struct element_of<dtype::float32> {
  using type = float;
};
template <>
struct element_of<dtype::float64> {
  using type = double;
};
}  // namespace detail

/// How an element type is called in reports and names of files.
template <class T>
inline constexpr std::string_view element_name = "unknown";
template <>
inline constexpr std::string_view element_name<float> = "fp32";
template <>
inline constexpr std::string_view element_name<double> = "fp64";

}  // namespace heddle
