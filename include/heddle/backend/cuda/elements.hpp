// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <heddle/comm/element.hpp>
#include <heddle/precision/element.hpp>
#include <string_view>

namespace heddle::cuda {

namespace detail {

template <dtype Type>
struct number : heddle::detail::element_of<Type> {};
template <>
struct number<dtype::bfloat16> {
  using type = __nv_bfloat16;
};
template <>
struct number<dtype::float16> {
  using type = __half;
};

}  // namespace detail

/// The element types that a device computes with: of 16 bits the CUDA Toolkit's, which its instructions take.
struct elements {
  template <dtype Type>
  using element = typename detail::number<Type>::type;
};

}  // namespace heddle::cuda

namespace heddle {

template <>
inline constexpr std::string_view element_name<__nv_bfloat16> = name_of(dtype::bfloat16);
template <>
inline constexpr std::string_view element_name<__half> = name_of(dtype::float16);

namespace comm {
template <>
struct element_traits<__nv_bfloat16> : detail::element_traits_of<element_kind::bfloat16, float> {};
template <>
struct element_traits<__half> : detail::element_traits_of<element_kind::float16, float> {};
}  // namespace comm

}  // namespace heddle
